"""`mtkit score --contrastive`: accuracy by kind from the scores of both translations, intervals, and errors."""

from __future__ import annotations

import json

import pytest

from mtkit.cli import entry
from mtkit.evaluation.contrastive import ContrastivePair, ContrastiveScores, read_pairs, wilson_interval
from mtkit.models.transformer.config import TransformerConfig

MODEL = TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1)


def test_accuracy_is_that_of_the_scores(toy_model, tmp_path, capsys) -> None:
    model = str(toy_model(MODEL))
    rows = [
        (f"the dog {n}", f"der Hund {n}", f"der Hund {n} nicht" if n % 2 else "Hund", "ab"[n % 2]) for n in range(9)
    ]
    (tmp_path / "pairs").write_text("".join("\t".join(row) + "\n" for row in rows))
    assert entry.execute(["score", model, "--contrastive", str(tmp_path / "pairs"), "--json", str(tmp_path / "j")]) == 0
    out = capsys.readouterr().out
    content = json.loads((tmp_path / "j").read_text())
    (tmp_path / "src").write_text("".join(f"{row[0]}\n" for row in rows))
    for column, name in ((1, "right"), (2, "wrong")):
        (tmp_path / "ref").write_text("".join(f"{row[column]}\n" for row in rows))
        assert entry.execute(["score", model, "--src", str(tmp_path / "src"), "--ref", str(tmp_path / "ref")]) == 0
        scores = [float(line) for line in capsys.readouterr().out.split()]
        assert [line[name] for line in content["lines"]] == pytest.approx(scores, abs=1e-4)
    right = [line["right"] > line["wrong"] for line in content["lines"]]
    assert content["accuracy"]["accuracy"] == pytest.approx(sum(right) / 9)
    assert content["kinds"]["b"] == {**content["kinds"]["b"], "pairs": 4, "accuracy": sum(right[1::2]) / 4}
    assert out.split("\n")[2].startswith("all")
    assert ("the wrong one is more probable by" in out) == (not all(right))


def test_equal_probabilities_are_no_success() -> None:
    pairs = [ContrastivePair(1, "a", "b", "c"), ContrastivePair(2, "a", "b", "d")]
    assert [*ContrastiveScores(pairs, [(-1.0, -1.0), (-1.0, -2.0)]).accuracies()] == [("", 2, 1)]


def test_a_kind_may_have_any_name() -> None:
    pairs = [ContrastivePair(1, "a", "b", "c", "all"), ContrastivePair(2, "a", "b", "d", "")]
    content = ContrastiveScores(pairs, [(-1.0, -3.0), (-2.0, -1.0)]).as_dict()
    assert (content["accuracy"]["accuracy"], content["kinds"]["all"]["accuracy"]) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("right", "count", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)]
)
def test_interval_is_wilsons(right: int, count: int, low: float, high: float) -> None:
    """The third one is the example of Newcombe 1998, table I."""
    assert wilson_interval(right, count) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\n", "pairs:1: 2 columns"),
        ("a\tb\tc\na\tb\tc\td\te\n", "pairs:2: 5 columns"),
        ("a\tb\tb\n", "pairs:1: the right and the wrong translation are equal"),
        ("a\t\tb\n", "pairs:1:"),
        ("", "pairs: no lines"),
    ],
)
def test_errors_name_the_line(content: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        read_pairs(content.split("\n")[:-1], "pairs")


@pytest.mark.parametrize("words", [["--src", "x"], ["--ref", "x"], ["--jsonl"]])
def test_options_that_contradict(words, toy_model, tmp_path, capsys) -> None:
    (tmp_path / "pairs").write_text("a\tb\tc\n")
    assert entry.execute(["score", str(toy_model(MODEL)), "--contrastive", str(tmp_path / "pairs"), *words]) == 2
    assert "--contrastive" in capsys.readouterr().err
