"""Sentence similarity against sacreBLEU's own functions."""

from __future__ import annotations

import pytest
import sacrebleu

from mtkit.evaluation.metrics import sentence_similarity

PAIRS = [("the dog sees a cat", "the dog saw the cat"), ("a", "a"), ("a b", "c d"), ("", "x")]


@pytest.mark.parametrize(("hyp", "ref"), PAIRS)
def test_similarity_equals_sacrebleu(hyp: str, ref: str) -> None:
    assert sentence_similarity("chrf", "en")(hyp, ref) == sacrebleu.sentence_chrf(hyp, [ref]).score
    assert sentence_similarity("bleu", "en")(hyp, ref) == sacrebleu.sentence_bleu(hyp, [ref]).score


def test_bleu_of_a_language_without_spaces_compares_characters() -> None:
    similarity = sentence_similarity("bleu", "zh")
    assert similarity("今天天气很好", "今天天气不好") == sacrebleu.sentence_bleu(
        "今天天气很好", ["今天天气不好"], tokenize="zh"
    ).score
    assert similarity("今天天气很好", "今天天气不好") > 30
