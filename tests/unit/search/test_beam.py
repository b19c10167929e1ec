"""Beam search against exhaustive search, on scripted models."""

from __future__ import annotations

import math

import pytest
import torch

from mtkit.search.interface import SearchRequest
from mtkit.search.length_penalty import GNMT, Average, WordReward
from tests.unit.search.scripted import ScriptedModel, beam, request

MAX = 4
PENALTIES = [
    (Average(alpha=0.0), lambda lp, n: lp),
    (Average(alpha=0.7), lambda lp, n: lp / n**0.7),
    (Average(alpha=2.0), lambda lp, n: lp / n**2),
    (GNMT(alpha=0.6), lambda lp, n: lp / ((5 + n) / 6) ** 0.6),
    (WordReward(reward=1.5), lambda lp, n: lp + 1.5 * n),
    (WordReward(reward=-0.5), lambda lp, n: lp - 0.5 * n),
]


def ranked(model, sentence: int, score, *, allowed=lambda s: True, max_length: int = MAX):
    scored = [
        (score(sum(model.log_probs(sentence, s)), len(s) + 1), s) for s in model.all_sentences(max_length) if allowed(s)
    ]
    return sorted(scored, reverse=True)


@pytest.mark.parametrize(("penalty", "score"), PENALTIES)
@pytest.mark.parametrize("n_best", [1, 5])
def test_wide_beam_is_exact(penalty, score, n_best):
    model = ScriptedModel(seed=1)
    results = beam(model, length_penalty=penalty, n_best=n_best)(model, request([0, 1, 2, 3, 4, 5, 6, 7], MAX))
    for sentence, hypotheses in enumerate(results):
        truth = ranked(model, sentence, score)[:n_best]
        assert [tuple(h.tokens) for h in hypotheses] == [s for _, s in truth]
        for h, (value, tokens) in zip(hypotheses, truth, strict=True):
            log_probs = model.log_probs(sentence, tokens)
            assert h.score == pytest.approx(value, abs=1e-5)
            assert h.log_prob == pytest.approx(sum(log_probs), abs=1e-5)
            assert h.token_log_probs == pytest.approx(log_probs, abs=1e-5)
            assert h.finished == (len(tokens) < MAX)


def test_bound_ends_the_search_early():
    model = ScriptedModel(seed=1, scale=4.0)
    beam(model, length_penalty=Average(alpha=0.0), n_best=1)(model, request([0, 1], MAX))
    assert model.rows_stepped < 2 * (1 + 3 + 9 + 27 + 81)


def test_length_limits_of_each_sentence():
    model = ScriptedModel(seed=2)
    max_lengths, min_lengths = [0, 1, 2, 3, 4, 3], [0, 1, 1, 3, 2, 9]
    asked = SearchRequest(
        source=torch.arange(6),
        max_length=torch.tensor(max_lengths),
        min_length=torch.tensor(min_lengths),
        sentence_ids=torch.arange(6),
    )
    for sentence, hypotheses in enumerate(beam(model)(model, asked)):
        low, high = min(min_lengths[sentence], max_lengths[sentence]), max_lengths[sentence]
        truth = ranked(
            model, sentence, lambda lp, n: lp / n, allowed=lambda s, low=low, high=high: low <= len(s) <= high
        )
        assert [tuple(h.tokens) for h in hypotheses] == [s for _, s in truth[:5]]


@pytest.mark.whole
@pytest.mark.parametrize("beam_size", [1, 2, 5])
@pytest.mark.parametrize("patience", [1.0, math.inf])
def test_batch_and_order_change_nothing(beam_size, patience):
    model = ScriptedModel(vocab=9, seed=3)
    search = beam(model, beam_size=beam_size, n_best=beam_size, patience=patience, with_attention=True)
    together = search(model, request(list(range(20)), 7))
    alone = [search(model, request([sentence], 7))[0] for sentence in range(20)]
    backwards = search(model, request(list(range(19, -1, -1)), 7))[::-1]
    for a, b, c in zip(together, alone, backwards, strict=True):
        assert [h.tokens for h in a] == [h.tokens for h in b] == [h.tokens for h in c]
        assert [h.score for h in a] == pytest.approx([h.score for h in b], abs=1e-6)


def search_until_no_better(model, sentence: int, beam_size: int, max_length: int, alpha: float):
    """(score, tokens) of the best hypothesis by the rule of `early_stopping: false`, written with lists."""
    live, ended = [(0.0, ())], []
    for length in range(max_length + 1):
        extensions = []
        for total, tokens in live:
            log_probs = model.lookup(sentence, (1, *tokens))[0].double().log_softmax(-1)
            for token in (0, *range(3, model.vocab)):
                if token == 0 or length < max_length:
                    extensions.append((total + float(log_probs[token]), (*tokens, token)))
        extensions.sort(key=lambda each: -each[0])
        for rank, (total, tokens) in enumerate(extensions):
            if tokens[-1] == 0 and rank < beam_size:
                ended.append((total / (length + 1) ** alpha, tokens[:-1]))
        ended = sorted(ended, key=lambda each: -each[0])[:beam_size]
        live = [each for each in extensions if each[1][-1] != 0][:beam_size]
        if not live or (len(ended) == beam_size and live[0][0] / (length + 1) ** alpha <= ended[-1][0]):
            break
    return ended[0]


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0])
def test_without_early_stopping_the_live_hypotheses_must_be_worse(alpha):
    model = ScriptedModel(vocab=9, seed=12)
    options = {"beam_size": 3, "n_best": 1, "patience": 1.0, "length_penalty": Average(alpha=alpha)}
    late = beam(model, early_stopping=False, **options)(model, request(list(range(60)), 7))
    early = beam(model, **options)(model, request(list(range(60)), 7))
    for sentence, hypotheses in enumerate(late):
        score, tokens = search_until_no_better(model, sentence, 3, 7, alpha)
        assert tuple(hypotheses[0].tokens) == tokens
        assert hypotheses[0].score == pytest.approx(score, abs=1e-5)
    if alpha:
        assert [h[0].tokens for h in late] != [h[0].tokens for h in early]


def test_attention_is_that_of_the_hypothesis():
    model = ScriptedModel(vocab=9, seed=4)
    results = beam(model, beam_size=4, n_best=4, with_attention=True)(model, request(list(range(10)), 6))
    for sentence, hypotheses in enumerate(results):
        for h in hypotheses:
            torch.testing.assert_close(h.attention, model.attention(sentence, tuple(h.tokens))[:-1])


def test_beam_of_one_is_greedy():
    model = ScriptedModel(vocab=9, seed=5)
    results = beam(model, beam_size=1, n_best=1, patience=1.0)(model, request(list(range(30)), 8))
    for sentence, hypotheses in enumerate(results):
        tokens: tuple[int, ...] = ()
        while len(tokens) < 8:
            logits = model.lookup(sentence, (1, *tokens))[0].clone()
            logits[[1, 2]] = -math.inf
            if int(logits.argmax()) == 0:
                break
            tokens = (*tokens, int(logits.argmax()))
        assert tuple(hypotheses[0].tokens) == tokens


def test_coverage_is_that_of_its_equation():
    model = ScriptedModel(seed=7)
    real = torch.tensor([[True, True, True], [True, True, False], [False, True, True]])
    results = beam(model, coverage_penalty=0.8)(model, request([0, 1, 2], MAX, real=real))
    for sentence, hypotheses in enumerate(results):
        scored = []
        for s in model.all_sentences(MAX):
            received = model.attention(sentence, s).sum(0)
            coverage = sum(math.log(min(float(a), 1.0)) for a, r in zip(received, real[sentence], strict=True) if r)
            scored.append((sum(model.log_probs(sentence, s)) / (len(s) + 1) + 0.8 * coverage, s))
        truth = sorted(scored, reverse=True)[:5]
        assert [tuple(h.tokens) for h in hypotheses] == [s for _, s in truth]
        assert [h.score for h in hypotheses] == pytest.approx([v for v, _ in truth], abs=1e-5)


def test_patience_one_gives_as_many_hypotheses_as_the_beam_holds():
    model = ScriptedModel(vocab=9, seed=8)
    results = beam(model, beam_size=4, n_best=4, patience=1.0)(model, request(list(range(10)), 9))
    for hypotheses in results:
        assert len(hypotheses) == 4
        assert sorted(hypotheses, key=lambda h: -h.score) == hypotheses
