"""README and docs say only what works: each command is a command line. In the README its recipe is valid as well, and
the quick ones run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.cli.app import build_app

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_RECIPE = {"run", "train", "preprocess"}


def simple_commands(text: str) -> list[list[str]]:
    """The words of each command; `&&`, `|` and `;` stand between commands, and a redirection ends one."""
    text = re.sub(r"\$[A-Z_]+", "1", text.replace("\\\n", " "))  # variables of a shell, such as the number of a job
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words.whitespace = " \t"
    commands: list[list[str]] = [[]]
    for word in words:
        if word.strip("\n") == "" or set(word) <= set("&|;<>()\n"):
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def blocks_of(path: Path) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands_of(program: str, blocks: Sequence[str]) -> list[list[str]]:
    lines = [line for block in blocks for line in block.replace("\\\n", " ").split("\n")]
    commands = [command for line in lines for command in simple_commands(line)]
    return [command[1:] for command in commands if Path(command[0]).name == program]


BLOCKS = blocks_of(DOCUMENTS[0])
MTKIT = commands_of("mtkit", BLOCKS)
OF_DOCS = commands_of("mtkit", [block for path in DOCUMENTS[1:] for block in blocks_of(path)])
PROGRAMS = {"python3", "pip", "mtkit", "pytest", "torchrun", "git", "cd", "head", "cat", "zcat", "sed"}


def identity(words: Sequence[str]) -> str:
    return " ".join(words)


def test_the_first_two_commands_are_the_promised_ones() -> None:
    first, second = (block.rstrip("\n") for block in BLOCKS[:2])
    assert first == "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/mtkit run quickstart"
    assert second == "python3 -m venv .venv && .venv/bin/pip install '.[dev]' && .venv/bin/pytest"


def test_only_known_programs_are_called() -> None:
    lines = [line for block in BLOCKS for line in block.replace("\\\n", " ").split("\n")]
    called = {Path(command[0]).name for line in lines for command in simple_commands(line)}
    assert {program for program in called if program not in PROGRAMS and "=" not in program} == set()


@pytest.mark.parametrize("words", [*MTKIT, *OF_DOCS], ids=identity)
def test_the_command_line_is_valid(words: list[str]) -> None:
    if words[0].startswith("-"):
        assert words in (["--help"], ["--version"])
    else:
        command = build_app().get_command(None, words[0])
        assert command.make_context(words[0], words[1:], resilient_parsing="--help" in words).args == []


def test_the_table_has_every_command() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Commands\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.split("\n") if line.startswith("| `")]
    named = {words.split()[0] for cell in cells for words in re.findall(r"`([^`]+)`", cell)}
    app = build_app()
    commands = {name: app.get_command(None, name) for name in app.list_commands(None)}
    assert named == {name for name, command in commands.items() if not command.hidden}


RECIPE_COMMANDS = [words for words in MTKIT if words[0] in WITH_RECIPE]
TEXT_FILES = {"train.de", "train.en"}  # of the reader; tests/e2e/runs/test_new.py runs the command


def recipe_of(words: list[str]) -> tuple[str, ...]:
    """The recipe and its overrides."""
    return tuple(word for word in words[1:] if not word.startswith("-"))


@pytest.mark.whole
@pytest.mark.parametrize(
    "words", sorted({words for words in map(recipe_of, RECIPE_COMMANDS) if not TEXT_FILES & set(words)}), ids=identity
)
def test_its_recipe_is_valid(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert entry.execute(["run", *words, "--dry-run"]) == 0
    assert "parameters" in capsys.readouterr().out


@pytest.mark.whole
def test_the_python_example_runs(tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    readme = DOCUMENTS[0].read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    tiny = "model={kind: transformer, d_model: 16, d_ff: 16, num_heads: 2, encoder_layers: 1, decoder_layers: 1}"
    short = f'"training.max_updates=2", "{tiny}", "search={{beam_size: 1, max_length: {{offset: 9, factor: 0}}}}"'
    assert '"training.max_updates=500"' in example
    monkeypatch.chdir(tmp_path)
    exec(example.replace('"training.max_updates=500"', short), {})
    assert 0 <= float(capsys.readouterr().out.split("\n")[-2]) < 100


@pytest.mark.parametrize("words", [words for words in MTKIT if {"--help", "--version"} & set(words)], ids=identity)
def test_quick_ones_run(words: list[str]) -> None:
    assert entry.execute(words) == 0
