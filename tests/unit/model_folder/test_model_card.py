"""Scores on a model card: each signature stands after the name of its column."""

from mtkit.model_folder.model_card import _scores


def test_signatures_name_their_columns() -> None:
    of_test = {"bleu": 31.25, "chrf": 50.0, "ter": 60.0}
    of_test |= {"bleu_signature": "b", "chrf_signature": "c", "ter_signature": "t"}
    lines = _scores({"test": {"one": of_test, "two": {**of_test, "bleu_signature": "other"}}})
    assert "| one | 31.2 | 50.0 | 60.0 |" in lines
    assert lines[-4:] == ["- BLEU: `b`", "- chrF2: `c`", "- TER: `t`", "- BLEU: `other`"]
