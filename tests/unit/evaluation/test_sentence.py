"""Likeness of sentences, against sacreBLEU's own functions."""

from __future__ import annotations

import pytest
import sacrebleu

from mtkit.evaluation.sentence import likeness

PAIRS = [("the dog sees a cat", "the dog saw the cat"), ("a", "a"), ("a b", "c d"), ("", "x")]


@pytest.mark.parametrize(("hyp", "ref"), PAIRS)
def test_is_that_of_sacrebleu(hyp: str, ref: str) -> None:
    assert likeness("chrf")(hyp, ref) == sacrebleu.sentence_chrf(hyp, [ref]).score
    assert likeness("bleu")(hyp, ref) == sacrebleu.sentence_bleu(hyp, [ref]).score
