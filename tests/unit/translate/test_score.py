"""Forced decoding against search."""

from __future__ import annotations

import pytest

from mtkit.corpus.order.collate import collate
from mtkit.errors import DataError
from mtkit.translate.score import forced_log_probs, score_lines
from tests.unit.translate.toy_translator import MODELS, build_model, sentences, transformer, translator


@pytest.mark.parametrize("config", MODELS, ids=lambda c: c.kind)
def test_forced_log_probs_are_those_of_the_search(tokenizers, config):
    model, lines = build_model(config, tokenizers), sentences(15)
    translations = list(translator(tokenizers, model, beam_size=3, n_best=2).translate(lines))
    src = tokenizers.src.encode(lines)
    ids = {tokenizers.tgt.ids_to_tokens([i])[0]: i for i in range(tokenizers.tgt.vocab.size)}
    tgt = [[ids[token] for token in one.tokens] for one in translations]
    batch = collate(src, tgt, range(len(lines)), tokenizers.src.vocab, tokenizers.tgt.vocab)
    for one, values in zip(translations, forced_log_probs([model], batch), strict=True):
        assert sum(values) == pytest.approx(one.log_prob, abs=1e-4 * max(1, abs(one.log_prob)))
        assert one.token_log_probs == pytest.approx(values, abs=1e-4)
    twice = forced_log_probs([model, model], batch)
    assert [sum(v) for v in twice] == pytest.approx([one.log_prob for one in translations], rel=1e-4)


def test_log_probs_of_a_split_line_are_those_of_its_parts(tokenizers):
    lines = [*sentences(6, 9), "the dog . a cat sees the house . and", " " * 20 + "the dog"]
    model = transformer(tokenizers)
    translations = list(translator(tokenizers, model, max_source_length=8).translate(lines))
    assert {"split" in t.flags for t in translations} == {True, False}
    assert all(len(t.token_log_probs) == len(t.tokens) + 1 for t in translations)
    pairs = [(line, t.tokens) for line, t in zip(lines, translations, strict=True)]
    for t, forced in zip(translations, score_lines([model], tokenizers, pairs, max_source_length=8), strict=True):
        assert forced.tokens == t.tokens
        assert forced.token_log_probs == pytest.approx(t.token_log_probs, abs=1e-4)
    with pytest.raises(DataError, match=r"was translated in \d parts, but this model splits its source into 1"):
        list(score_lines([model], tokenizers, pairs))


def test_scores_are_in_order_and_independent_of_the_batch(tokenizers):
    model, lines = transformer(tokenizers), sentences(20)
    pairs = [*zip(lines, lines[::-1], strict=True), ("", "")]
    together = list(score_lines([model], tokenizers, pairs))
    alone = [next(iter(score_lines([model], tokenizers, [pair]))) for pair in pairs]
    assert [s.line for s in together] == list(range(1, 22))
    assert [s.log_prob for s in together] == pytest.approx([s.log_prob for s in alone], abs=1e-4)
    assert (together[-1].log_prob, together[-1].perplexity) == (0.0, 1.0)
