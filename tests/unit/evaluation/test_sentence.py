"""Sentence similarity against sacreBLEU's own functions."""

from __future__ import annotations

import pytest
import sacrebleu

from mtkit.evaluation.sentence import sentence_similarity

PAIRS = [("the dog sees a cat", "the dog saw the cat"), ("a", "a"), ("a b", "c d"), ("", "x")]


@pytest.mark.parametrize(("hyp", "ref"), PAIRS)
def test_similarity_equals_sacrebleu(hyp: str, ref: str) -> None:
    assert sentence_similarity("chrf")(hyp, ref) == sacrebleu.sentence_chrf(hyp, [ref]).score
    assert sentence_similarity("bleu")(hyp, ref) == sacrebleu.sentence_bleu(hyp, [ref]).score
