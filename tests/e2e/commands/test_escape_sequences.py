"""Escape sequences in names, keys and text: a terminal receives them as escapes, in every message and summary."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mtkit.cli import entry
from tests.toy.sampling import sampled

SEQUENCES = ["\x1b]52;c;QUJD\x07", "\x1b[2J", "\u202e", "\x9b31m", "\r", "\x08" * 3, "\x1b]0;t\x1b\\", "\u2066", "\x7f"]
OBEYED = {chr(code) for code in [*range(32), *range(0x7F, 0xA0)]} - {"\n", "\t"} | {"\u202e", "\u2066"}
TEXTS = {
    "recipe": "name: x\n{}: 1\n",
    "value": 'corpus: {{src_lang: "{}", tgt_lang: de, train: [{{src: "{}", tgt: b}}]}}\n',
    "quoted": '"{}": {{"{}": 2}}\n',
}


def hostile(rng: random.Random) -> str:
    parts = (rng.choice([rng.choice(SEQUENCES), rng.choice("abc.-=")]) for _ in range(rng.randint(1, 6)))
    return "".join(parts) + "\x1b[1m"


def command(rng: random.Random, folder: Path) -> list[str]:
    name = hostile(rng)
    file = folder / f"f{name.replace('/', '')}"
    file.write_text("\n".join(hostile(rng) for _ in range(3)) + "\n")
    recipe = folder / "r.yaml"
    escaped = name.encode("unicode_escape").decode().replace('"', "")
    recipe.write_text(TEXTS[rng.choice(list(TEXTS))].format(escaped, escaped))
    return rng.choice([
        ["translate", str(folder / name)],
        ["translate", str(file), str(file)],
        ["evaluate", str(file), "--ref", str(folder / name)],
        ["evaluate", str(file), "--ref", str(file), "--no-intervals"],
        ["evaluate", str(file), "--ref", str(file), "--docid", str(file), "--metrics", "bleu", "--no-intervals"],
        ["run", name],
        ["run", str(recipe), "--dry-run"],
        ["train", "quickstart", f"{name}=1", "--dry-run"],
        ["train", "quickstart", f"name={name}", f"model={name}", "--dry-run"],
        ["keys", name],
        [name],
        ["encode", name, str(file)],
        ["new", str(file), str(file)],
        ["study", name],
        ["checkpoints", str(folder / name)],
        ["describe", name],
        ["plot", name, f"--{name}"],
    ])  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(sampled(25, least=2)))  # 250 commands
def test_no_command_lets_a_sequence_through(seed: int, tmp_path: Path, capsys, monkeypatch) -> None:
    rng = random.Random(seed)
    monkeypatch.chdir(tmp_path)
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = command(rng, folder)
        code = entry.execute(words)
        captured = capsys.readouterr()
        assert (OBEYED & {*captured.err, *captured.out}, code in (0, 2, 65, 66, 78)) == (set(), True), words
