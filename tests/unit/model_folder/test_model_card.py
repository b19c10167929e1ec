"""Scores on a model card: each signature stands after the name of its column."""

from types import SimpleNamespace
from typing import Any

from mtkit.model_folder.model_card import _results, _scores


def test_scores_are_listed_as_hubs_read_them() -> None:
    metadata: Any = SimpleNamespace(src_lang="en", tgt_lang="de")
    of_test = {"bleu": 31.254, "bleu_moses_lc": 40.0, "bleu_signature": "b", "ter": 60.0}
    (model,) = _results(metadata, {"test": {"news": of_test, "empty": {}}})
    (result,) = model["results"]
    assert model["name"] == "en-de"
    assert result["dataset"] == {"name": "news", "type": "news"}
    assert [(each["type"], each["value"]) for each in result["metrics"]] == [("bleu", 31.25), ("ter", 60.0)]
    assert _results(metadata, {}) == []


def test_signatures_name_their_columns() -> None:
    of_test = {"bleu": 31.25, "chrf": 50.0, "ter": 60.0}
    of_test |= {"bleu_signature": "b", "chrf_signature": "c", "ter_signature": "t"}
    lines = _scores({"test": {"one": of_test, "two": {**of_test, "bleu_signature": "other"}}})
    assert "| one | 31.2 | 50.0 | 60.0 |" in lines
    assert lines[-4:] == ["- BLEU: `b`", "- chrF2: `c`", "- TER: `t`", "- BLEU: `other`"]


def test_columns_are_the_metrics_that_were_computed() -> None:
    few = {"bleu": 31.25, "bleu_signature": "b", "bleu_moses_lc": 40.0, "bleu_moses_lc_signature": "m"}
    lines = _scores({"test": {"one": few, "two": {**few, "chrf++": 51.0, "chrf++_signature": "p"}}})
    assert lines[1] == "| test set | BLEU | BLEU (lower-cased Moses tokens) | chrF2++ |"
    assert lines[3:5] == ["| one | 31.2 | 40.0 |  |", "| two | 31.2 | 40.0 | 51.0 |"]
    assert lines[-3:] == ["- BLEU: `b`", "- BLEU (lower-cased Moses tokens): `m`", "- chrF2++: `p`"]
