"""Lines of several sentences, from the training text to the translation; and the flag of short translations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.io.records import write_record
from mtkit.model_folder.config_file import CONFIG, read_config
from mtkit.text.lines import read_lines
from tests.toy.runs import WORDS, run, write_all

LINE = "the dog sees big . cat and small . dog and cat . and the"


def train(folder: Path, joined: int) -> Path:
    """A run whose training text has 100 lines, this number of which are two sentences; the target has fewer words."""
    folder.mkdir()
    write_all(folder)
    words = list(WORDS)
    sentences = [f"{words[n % 7]} {words[n // 7 % 7]} {words[n // 49]} ." for n in range(100)]
    src = [f"{each} {each}" if n % 100 < joined else each for n, each in enumerate(sentences)]
    src[99] = " ".join([*words, *words, "."])  # as long as LINE, which is no long line then
    (folder / "train.en").write_text("".join(f"{line}\n" for line in src))
    (folder / "train.de").write_text("".join(f"{' '.join(line.split()[1:])}\n" for line in src))
    run(folder, "training.max_updates=2", "tokenizer.vocab_size=110")
    return folder / "run"


@pytest.mark.whole
@pytest.mark.parametrize(("joined", "splits"), [(0, True), (9, True), (10, False), (60, False)])
def test_the_training_text_decides_whether_lines_are_split(tmp_path: Path, capsys, joined, splits) -> None:
    model = train(tmp_path / "text", joined)
    fields = read_config(model / "model" / CONFIG)
    assert fields["multi_sentence_share"] == pytest.approx(joined / 100)
    tokens = [
        sum(len(line.split()) for line in read_lines(tmp_path / "text" / f"train.{side}")) for side in ("en", "de")
    ]
    assert fields["length_ratio"] == pytest.approx(tokens[1] / tokens[0], abs=1e-3)  # a word is a token there
    source = tmp_path / "line.en"
    source.write_text(f"{LINE}\n\n{LINE.partition('.')[0]}.\n")

    def num_parts(*options: str) -> list[int]:
        assert entry.execute(["translate", str(model), str(source), "--jsonl", *options]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [line["tokens"].count("</s>") + 1 for line in lines]

    by_sentence, whole = [4, 1, 1], [1, 1, 1]
    assert num_parts("--split-sentences") == by_sentence
    assert num_parts("--no-split-sentences") == whole
    assert num_parts("--set", "split_long_lines=false") == whole
    assert num_parts() == (by_sentence if splits else whole)
    for name in ("multi_sentence_share", "length_ratio"):  # as older versions wrote it
        del fields[name]
    write_record(model / "model" / CONFIG, {key: value for key, value in fields.items() if key != "sha256"})
    assert num_parts() == by_sentence


def test_short_translations_are_flagged_everywhere(tmp_path: Path, capsys) -> None:
    model = train(tmp_path / "text", 0)
    source = tmp_path / "lines.md"
    source.write_text(" ".join(["the dog and cat"] * 10) + "\n\nthe dog\n")
    limit = ["--set", "max_length={factor: 0.0, offset: 2}", "--set", "split_long_lines=false"]
    (tmp_path / "lines.txt").write_text(source.read_text())
    words = ["translate", str(model), str(tmp_path / "lines.txt"), "--flags", str(tmp_path / "flags"), "--jsonl"]
    assert entry.execute([*words, *limit]) == 0
    captured = capsys.readouterr()
    assert ["short" in json.loads(line)["flags"] for line in captured.out.splitlines()] == [True, False, False]
    (first, *_) = [json.loads(line) for line in read_lines(tmp_path / "flags")]
    assert (first["line"], "short" in first["flags"]) == (1, True)
    assert "1 far shorter than the source (line 1)" in captured.err
    assert entry.execute(["translate", str(model), str(source), "-o", str(tmp_path / "out.md"), *limit]) == 0
    assert f"1 far shorter than the source ({source}:1)" in capsys.readouterr().err
