"""`mtkit check`: its words, its report and its exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mtkit.cli import entry

DATA = Path(__file__).parents[3] / "data"


def lines(name: str, count: int) -> list[str]:
    return (DATA / name).read_text().split("\n")[:count]


def write(path: Path, text: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in text))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = entry.execute(["check", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src, tgt = write(tmp_path / "a.en", lines("train.en", 400)), write(tmp_path / "a.de", lines("train.de", 400))
    assert run(capsys, src, tgt) == (0, f"{src} and {tgt}: 400 pairs, nothing wrong\n", "")
    write(tmp_path / "a.de", [line for number, line in enumerate(lines("train.de", 400)) if number != 200])
    report = tmp_path / "report.json"
    code, out, err = run(capsys, src, tgt, "--json", str(report))
    assert code == 65
    assert err == "mtkit: error: 2 kinds of errors make training or scores wrong; mend the text, then check it again\n"
    assert re.search(
        rf"error: translations are on other lines \(1\): {re.escape(src)}:(199|20[0-3]) \(from here on", out
    )
    (content,) = json.loads(report.read_text())
    assert [(each["kind"], each["level"]) for each in content["findings"][:2]] == [
        ("lengths", "error"),
        ("shift", "error"),
    ]


def test_a_document_and_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = list(zip(lines("train.en", 150), lines("train.de", 150), strict=True))
    table = write(tmp_path / "a.tsv", [f"{src}\t{tgt}" for src, tgt in [*pairs, ("same text", "same text")]])
    code, out, _ = run(capsys, table)
    assert (code, out.split("\n")[0]) == (0, f"{table}: 151 pairs, nothing wrong")
    for side, index in (("en", 0), ("de", 1)):
        write(tmp_path / f"train.{side}", [pair[index] for pair in pairs])
        write(tmp_path / f"valid.{side}", [pair[index] for pair in pairs[120:140]])
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "name: r\ncorpus:\n  src_lang: en\n  tgt_lang: de\n  train: [{src: train.en, tgt: train.de}]\n"
        "  valid: {src: valid.en, tgt: valid.de}\n"
    )
    code, out, err = run(capsys, str(recipe))
    assert code == 65
    assert f"error: pairs are in valid or test (20): {tmp_path}/train.en:121, " in out
    assert "one kind of error makes training or scores wrong" in err


def test_preview_shows_what_the_model_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for side in ("en", "de"):
        write(tmp_path / f"train.{side}", lines(f"train.{side}", 150))
    (tmp_path / "r.yaml").write_text(
        "name: r\ncorpus:\n  src_lang: en\n  tgt_lang: de\n  train: [{src: train.en, tgt: train.de, tag: news}]\n"
        "tokenizer: {vocab_size: 200, model_type: bpe, shared: true}\n"
    )
    words = ("r.yaml", "--preview", "2")
    code, _, err = run(capsys, *words)
    assert (code, "first run mtkit preprocess" in err) == (66, True)
    assert entry.execute(["preprocess", "r.yaml"]) == 0
    capsys.readouterr()
    code, out, _ = run(capsys, *words)
    first, src, tgt, *_ = out.split("\n")
    assert code == 0
    assert re.fullmatch(r"update 1, micro-batch of \d+ pairs, [\d,]+ tokens, \d+% padding", first)
    assert re.fullmatch(r"  src: <tag0> ▁.* </s>", src)
    assert re.fullmatch(r"  tgt: ▁.* </s>", tgt)
    assert out.count("  src: ") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.txt", "b.tmx", "c.tmx"], "a.txt: no such file"),
        (["-", "-"], "-: is stdin, which can be read once"),
        (["a.en", "a.de", "--preview", "3"], "check: --preview shows the training data of a recipe"),
        (["quickstart", "--src-lang", "en"], "check: a recipe names its languages and sets; omit --src-lang"),
        (["a.txt"], "a.txt: no such file"),
        (["a.tmx", "b.tmx"], "a.tmx: no such file"),
    ],
)
def test_wrong_words(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, *words)
    assert code in (2, 66)
    assert message in err
