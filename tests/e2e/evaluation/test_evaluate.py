"""`mtkit evaluate` on files: table, JSON, groups, and errors in one sentence."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from mtkit.cli import entry

REF = ["the dog sees a big cat", "a man finds the small red house", "the cat and the dog"] * 4


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    texts = {
        "ref": REF,
        "one": [line.replace("cat", "fox") for line in REF],
        "two": [line.replace("the", "x") for line in REF],
        "docs": ["a", "b", "b"] * 4,
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return {name: str(tmp_path / name) for name in texts}


def test_systems_are_compared_with_the_first(files, tmp_path, capsys) -> None:
    words = [files["one"], files["two"], "--ref", files["ref"], "--metrics", "bleu,chrf++", "--json"]
    assert entry.execute(["evaluate", *words, str(tmp_path / "j"), "--docid", files["docs"], "--by-length"]) == 0
    out = capsys.readouterr().out
    assert "p (bootstrap)" in out
    assert "p (randomisation)" in out
    assert out.count(" *") == 2  # the best of each metric
    assert "|bs:1000|seed:12345|" in out
    assert "length 0-9" in out
    content = json.loads((tmp_path / "j").read_text())
    assert set(content[files["two"]]) >= {"bleu", "chrf++", "bleu_margin", "bleu_p_bootstrap", "bleu_p_randomisation"}
    assert content[files["one"]]["groups"]["b"]["lines"] == 8


def test_one_system_without_intervals(files, capsys) -> None:
    words = ["evaluate", files["one"], "--ref", files["ref"], "--no-intervals"]
    assert entry.execute(words) == 0
    out = capsys.readouterr().out
    assert "±" not in out
    assert "bs:1000" not in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--metrics", "bleu,comet"], 2, "--metrics: no such metric: comet; the metrics are bleu, chrf, chrf++"),
        (["--metrics", ","], 2, "--metrics is empty"),
        (["--docid", "two-lines"], 65, "has 2 lines, but the test set 12; write one name per line"),
        (["one"], 2, "one is given twice; omit one of the two"),
        (["x/../one"], 2, "one and x/../one are one file; omit one of the two"),
        (["--ref", "x/../ref"], 2, "ref and x/../ref are one file; omit one of the two"),
        (["-", "--src", "-"], 2, "- is stdin, which can be read once"),
        (["run"], 2, "run is a run folder; for all its test sets give it alone, for one of them the"),
        (["--lang", "gerrman"], 2, "--lang: 'gerrman' is not a language code; give two or three letters, such as de"),
        (["--tokenize", "char", "--metrics", "chrf"], 2, "--tokenize char is the tokenizer of BLEU, which is not"),
        (["--json", "/dev/stdout"], 2, "--json: stdout has the results in words; give - to have them as JSON instead"),
        (["--json", "x"], 74, "x: cannot be written: is a directory"),
        (["--json", "none/scores.json"], 74, "none/scores.json: cannot be written: the folder none does not exist"),
    ],
)
def test_errors_are_one_sentence(files, tmp_path, capsys, monkeypatch, words, code, message) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two-lines").write_text("a\nb\n")
    (tmp_path / "x").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/recipe.yaml").touch()
    assert entry.execute(["evaluate", "one", "--ref", "ref", *words]) == code
    out, err = capsys.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert out == ""


def test_metrics_may_be_given_one_by_one(files, capsys) -> None:
    words = ["evaluate", files["one"], "--ref", files["ref"], "--no-intervals", "--metrics", "ter", "--metrics", "bleu"]
    assert entry.execute(words) == 0
    out = capsys.readouterr().out
    assert "TER: nrefs:1" in out
    assert "BLEU: nrefs:1" in out
    assert "chrF2" not in out


def test_an_unknown_language_is_reported(files, capsys) -> None:
    words = ["evaluate", files["one"], "--ref", files["ref"], "--no-intervals", "--lang"]
    for code in ("de", "zh-CN", "jpn", "yue", "pt_BR"):
        assert entry.execute([*words, code]) == 0
        assert "--lang" not in capsys.readouterr().err
    assert entry.execute([*words, "xx"]) == 0
    note = "--lang xx: mtkit does not know this language code, so the script of the references decides\n"
    assert capsys.readouterr().err == note


def test_ter_of_japanese_counts_characters_and_says_so(tmp_path, capsys) -> None:
    for name, word in (("hyp", "猫"), ("ref", "本")):
        (tmp_path / name).write_text("".join(f"これは{word}です。今日は良い天気ですね{i}\n" for i in range(30)))
    words = [str(tmp_path / "hyp"), "--ref", str(tmp_path / "ref"), "--metrics", "ter"]
    assert entry.execute(["evaluate", *words]) == 0
    out, err = capsys.readouterr()
    assert "|norm:yes|punct:yes|asian:yes|" in out
    assert "TER counts each kanji and each run of kana as a word" in err
    assert err.count("\n") == 1


def test_documents_without_intervals_in_the_order_of_the_scores(files, capsys) -> None:
    words = [files["one"], "--ref", files["ref"], "--no-intervals", "--docid", files["docs"], "--metrics"]
    assert entry.execute(["evaluate", *words, "ter,chrf,bleu"]) == 0
    heading = next(line for line in capsys.readouterr().out.split("\n") if "lines" in line)
    assert heading.index("BLEU") < heading.index("chrF2") < heading.index("TER")


def test_translations_from_stdin(files, tmp_path, capsys, monkeypatch) -> None:
    options = ["--ref", files["ref"], "--no-intervals", "--metrics", "BLEU,chrF++", "--json", str(tmp_path / "j")]
    assert entry.execute(["evaluate", files["one"], *options]) == 0
    expected = json.loads((tmp_path / "j").read_text())[files["one"]]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(files["one"]).read_bytes())))
    assert entry.execute(["evaluate", "-", *options]) == 0
    assert json.loads((tmp_path / "j").read_text())["-"] == expected
