"""Greedy search and sampling."""

from __future__ import annotations

import collections
import math

import pytest
import torch

from mtkit.search.beam.beam import BeamSearch
from mtkit.search.constraints.repeats import NoRepeatNgram
from mtkit.search.interface import Request
from mtkit.search.length_penalty import Average
from mtkit.search.sampling import Draw
from mtkit.search.single_path import Place, Walk
from tests.unit.search.scripted import ScriptedModel


def request(sentences, max_length: int, **changes) -> Request:
    asked = Request.of(torch.tensor(sentences), torch.full((len(sentences),), max_length))
    return Request(**{**vars(asked), **changes})


@pytest.mark.parametrize("min_length", [0, 3])
@pytest.mark.parametrize("with_log_probs", [True, False])
def test_greedy_is_a_beam_of_one(min_length, with_log_probs):
    model = ScriptedModel(vocab=9, seed=5)
    asked = request(list(range(40)), 8, min_length=torch.full((40,), min_length))
    walk = Walk(symbols=model.symbols, penalty=Average(1.0), with_log_probs=with_log_probs, with_attention=True)
    beam = BeamSearch(beam_size=1, n_best=1, symbols=model.symbols, penalty=Average(1.0), with_attention=True)
    for (a,), (b,) in zip(walk(model, asked), beam(model, asked), strict=True):
        assert a.tokens == b.tokens
        assert a.finished == b.finished
        torch.testing.assert_close(a.attention, b.attention)
        if with_log_probs:
            assert a.piece_log_probs == pytest.approx(b.piece_log_probs, abs=1e-5)
            assert (a.log_prob, a.score) == pytest.approx((b.log_prob, b.score), abs=1e-5)
        else:
            assert math.isnan(a.log_prob)


class Finder(ScriptedModel):
    """Finds the largest logit by itself, and counts how often it was asked."""

    asked = 0

    def step(self, token, state):
        step = super().step(token, state)
        model = self

        class Step:
            state, attention, logits = step.state, step.attention, step.logits

            def argmax(self, banned):
                model.asked += 1
                return step.all_logits.index_fill(1, banned, float("-inf")).argmax(1)

        return Step()


def test_a_model_may_find_the_largest_logit_by_itself():
    scripted, finder = ScriptedModel(vocab=9, seed=5), Finder(vocab=9, seed=5)
    asked = request(list(range(40)), 8, min_length=torch.full((40,), 2))
    walk = Walk(symbols=scripted.symbols, penalty=Average(1.0), with_log_probs=False)
    expected = [h[0].tokens for h in walk(scripted, asked)]
    assert [h[0].tokens for h in walk(finder, asked)] == expected
    assert finder.asked == 6  # where neither limit has a say
    finder.asked = 0
    for other in ({"with_log_probs": True}, {"constraints": (NoRepeatNgram(2),)}):
        Walk(**{"symbols": scripted.symbols, "penalty": Average(1.0), "with_log_probs": False, **other})(finder, asked)
    assert finder.asked == 0


def test_sentences_of_no_length():
    model = ScriptedModel(seed=6)
    for with_log_probs in (True, False):
        walk = Walk(symbols=model.symbols, penalty=Average(1.0), with_log_probs=with_log_probs)
        assert [h[0].tokens for h in walk(model, request([0, 1], 0))] == [[], []]


def test_no_sentences():
    model = ScriptedModel(seed=6)
    assert Walk(symbols=model.symbols, penalty=Average(1.0))(model, request([], 0)) == []
    assert BeamSearch(beam_size=2, n_best=1, symbols=model.symbols, penalty=Average(1.0))(model, request([], 0)) == []


def frequencies(draw: Draw, logits: torch.Tensor, count: int) -> torch.Tensor:
    place = Place(torch.arange(count), torch.zeros(count, dtype=torch.int64), 3)
    return torch.bincount(draw(logits.expand(count, -1), place), minlength=logits.numel())


def chi_square(observed: torch.Tensor, prob: torch.Tensor) -> tuple[float, int]:
    kept = prob > 0
    assert observed[~kept].sum() == 0
    expected = prob[kept].double() * observed.sum()
    return float(((observed[kept] - expected) ** 2 / expected).sum()), int(kept.sum()) - 1


LOGITS = torch.tensor([1.0, 0.2, -1.0, 2.0, 0.0, -2.0, 1.5, -math.inf])
P = LOGITS.softmax(0)
TRUTH = [
    (Draw(), P),
    (Draw(temperature=0.5), (LOGITS / 0.5).softmax(0)),
    (Draw(top_k=3), torch.where(torch.tensor([1, 0, 0, 1, 0, 0, 1, 0]).bool(), P, 0.0)),
    (Draw(top_p=0.6), torch.where(torch.tensor([0, 0, 0, 1, 0, 0, 1, 0]).bool(), P, 0.0)),
    (Draw(epsilon=0.05), torch.where(P >= 0.05, P, 0.0)),
    (Draw(seed=77), P),
]


@pytest.mark.parametrize(("draw", "truth"), TRUTH)
def test_frequencies_are_those_of_the_distribution(draw, truth):
    value, freedom = chi_square(frequencies(draw, LOGITS, 20_000), truth / truth.sum())
    assert value < freedom + 4 * math.sqrt(2 * freedom) + 4  # four standard deviations


def test_whole_samples_are_those_of_the_model():
    model = ScriptedModel(vocab=5, seed=7, scale=1.0)
    model.symbols = type(model.symbols)(size=5, bos=1, eos=0)  # nothing banned: the distribution is the model's own
    walk = Walk(symbols=model.symbols, penalty=Average(0.0), pick=Draw(), paths=3000, n_best=3000)
    (found,) = walk(model, request([0], 1))
    counts = collections.Counter(tuple(h.tokens) for h in found)
    first = model._of(0, (1,))[0].softmax(0)
    observed = torch.tensor([counts[()], *(counts[(token,)] for token in range(1, 5))])
    value, freedom = chi_square(observed, first)
    assert value < freedom + 4 * math.sqrt(2 * freedom) + 4
    for h in found[:20]:
        assert h.piece_log_probs == pytest.approx(model.log_probs(0, tuple(h.tokens)), abs=1e-5)


def test_samples_depend_on_the_line_alone():
    model = ScriptedModel(vocab=9, seed=8)
    walk = Walk(symbols=model.symbols, penalty=Average(1.0), pick=Draw(seed=5), paths=3, n_best=3)
    lines = torch.arange(100, 120)
    together = walk(model, request(list(range(20)), 6, lines=lines))
    for sentence in range(20):
        (alone,) = walk(model, request([sentence], 6, lines=lines[sentence : sentence + 1]))
        assert [h.tokens for h in alone] == [h.tokens for h in together[sentence]]
    other = walk(model, request(list(range(20)), 6, lines=lines + 1000))
    assert [h[0].tokens for h in other] != [h[0].tokens for h in together]
