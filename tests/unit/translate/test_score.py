"""Forced decoding against search."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from mtkit.corpus.order.batch import collate
from mtkit.errors import ComputeError, DataError
from mtkit.layers.config import LearnedConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.translate import model_engine
from mtkit.translate.model_engine import ModelEngine, score_tokens
from mtkit.translate.score import score_lines
from tests.unit.translate.toy_translator import MODELS, build_model, sentences, transformer, translator


def engine(*models):
    return ModelEngine(models, compute_type="float32", rewrite=False)


@pytest.mark.parametrize("config", MODELS, ids=lambda c: c.kind)
def test_forced_log_probs_are_those_of_the_search(tokenizers, config):
    model, lines = build_model(config, tokenizers), sentences(15)
    translations = list(translator(tokenizers, model, beam_size=3, n_best=2).translate(lines))
    src = tokenizers.src.encode(lines)
    ids = {tokenizers.tgt.ids_to_tokens([i])[0]: i for i in range(tokenizers.tgt.vocab.size)}
    tgt = [[ids[token] for token in one.tokens] for one in translations]
    batch = collate(src, tgt, range(len(lines)), tokenizers.src.vocab, tokenizers.tgt.vocab)
    for one, scores in zip(translations, score_tokens([model], batch), strict=True):
        values = [score.log_prob for score in scores]
        assert sum(values) == pytest.approx(one.log_prob, abs=1e-4 * max(1, abs(one.log_prob)))
        assert one.token_log_probs == pytest.approx(values, abs=1e-4)
    twice = score_tokens([model, model], batch)
    sums = [sum(score.log_prob for score in scores) for scores in twice]
    assert sums == pytest.approx([one.log_prob for one in translations], rel=1e-4)


def test_log_probs_of_a_split_line_are_those_of_its_parts(tokenizers):
    lines = [*sentences(6, 9), "the dog . a cat sees the house . and", " " * 20 + "the dog"]
    model = transformer(tokenizers)
    translations = list(translator(tokenizers, model, max_source_length=8).translate(lines))
    assert {"split" in t.flags for t in translations} == {True, False}
    assert all(len(t.token_log_probs) == len(t.tokens) + 1 for t in translations)
    pairs = [(line, t.tokens) for line, t in zip(lines, translations, strict=True)]
    for t, forced in zip(translations, score_lines(engine(model), tokenizers, pairs, max_source_length=8), strict=True):
        assert forced.tokens == t.tokens
        assert forced.token_log_probs == pytest.approx(t.token_log_probs, abs=1e-4)
    with pytest.raises(DataError, match=r"was translated in \d parts, but this model splits its source into 1"):
        list(score_lines(engine(model), tokenizers, [("the dog", tokens) for _, tokens in pairs]))


def test_scores_are_in_order_and_independent_of_the_batch(tokenizers):
    model, lines = transformer(tokenizers), sentences(20)
    pairs = [*zip(lines, lines[::-1], strict=True), ("", "")]
    together = list(score_lines(engine(model), tokenizers, pairs))
    alone = [next(iter(score_lines(engine(model), tokenizers, [pair]))) for pair in pairs]
    assert [s.line for s in together] == list(range(1, 22))
    assert [s.log_prob for s in together] == pytest.approx([s.log_prob for s in alone], abs=1e-4)
    assert (together[-1].log_prob, together[-1].perplexity) == (0.0, 1.0)


@pytest.mark.parametrize("error", [RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."), MemoryError()])
def test_scores_are_the_same_when_memory_runs_out(tokenizers, monkeypatch, error):
    model, lines = transformer(tokenizers), sentences(40, 8)
    pairs = [*zip(lines, lines[::-1], strict=True)]
    expected = list(score_lines(engine(model), tokenizers, pairs))
    sizes, reported = [], []

    def limited(models, batch):
        sizes.append(batch.target.ids.numel())
        if sizes[-1] > 60:
            raise error
        return score_tokens(models, batch)

    monkeypatch.setattr(model_engine, "score_tokens", limited)
    scores = list(score_lines(engine(model), tokenizers, pairs, report_oom=reported.append))
    assert [s.log_prob for s in scores] == pytest.approx([s.log_prob for s in expected], abs=1e-4)
    assert [s.line for s in scores] == list(range(1, 41))
    assert sizes[0] > 60
    assert len(reported) == 1


def test_a_pair_that_does_not_fit_alone_is_named_after_the_scores_before(tokenizers, monkeypatch):
    pairs = [("the dog", "the dog")] * 12
    pairs[7] = ("the dog", "the dog " * 20)

    def limited(models, batch):
        if batch.target.ids.size(1) > 20:
            raise MemoryError
        return score_tokens(models, batch)

    monkeypatch.setattr(model_engine, "score_tokens", limited)
    scores = score_lines(engine(transformer(tokenizers)), tokenizers, pairs)
    assert [score.line for score in itertools.islice(scores, 7)] == list(range(1, 8))
    with pytest.raises(ComputeError, match=r"^line 8: out of memory in a batch of this line alone; split source and"):
        next(scores)


def test_other_errors_are_not_tried_again(tokenizers, monkeypatch):
    calls = []

    def broken(models, batch):
        calls.append(batch)
        raise RuntimeError("index out of range")

    monkeypatch.setattr(model_engine, "score_tokens", broken)
    with pytest.raises(RuntimeError, match="index out of range"):
        list(score_lines(engine(transformer(tokenizers)), tokenizers, [("the dog", "the cat")] * 9))
    assert len(calls) == 1


def test_a_translation_that_is_too_long_is_named_after_the_scores_of_all_lines_before(tokenizers):
    positions = LearnedConfig(max_length=9)
    config = TransformerConfig(d_model=8, d_ff=8, num_heads=2, decoder_layers=1, decoder_positions=positions)
    pairs = [("the dog", "the dog")] * 12
    for line in (8, 11):
        pairs[line - 1] = ("the dog", "the dog " * 20)
    scores = score_lines(engine(build_model(config, tokenizers)), tokenizers, pairs)
    assert [score.line for score in itertools.islice(scores, 7)] == list(range(1, 8))
    with pytest.raises(DataError, match=r"line 8: a sentence of \d+ tokens is longer than the 9 learned positions"):
        next(scores)


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)], ids=["one model", "ensemble"])
def test_confidence_and_correctness_are_those_of_the_mean_distribution(tokenizers, seeds):
    models = [transformer(tokenizers, seed) for seed in seeds]
    lines = sentences(12)
    ids = tokenizers.src.encode(lines)
    batch = collate(ids, ids[::-1], range(len(lines)), tokenizers.src.vocab, tokenizers.tgt.vocab)
    with torch.no_grad():
        states = [model.decode_states(batch.source, batch.target) for model in models]
        prob = torch.stack([m.output(s).double().softmax(-1) for m, s in zip(models, states, strict=True)]).mean(0)
    for row, scores in enumerate(score_tokens(models, batch)):
        for t, score in enumerate(scores):
            assert math.exp(score.best_log_prob) == pytest.approx(float(prob[row, t].max()), rel=1e-4)
            is_correct = score.log_prob == score.best_log_prob
            assert is_correct == (int(prob[row, t].argmax()) == int(batch.labels[row, t]))
            assert score.log_prob == pytest.approx(math.log(prob[row, t, batch.labels[row, t]]), rel=1e-4)
