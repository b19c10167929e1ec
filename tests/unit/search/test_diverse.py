"""Diverse groups and ensembles against slow and obvious versions."""

from __future__ import annotations

import collections
import math

import pytest
import torch

from mtkit.search.beam.beam import BeamSearch
from mtkit.search.beam.diverse import Diverse
from mtkit.search.ensemble import Ensemble
from mtkit.search.interface import Request
from mtkit.search.length_penalty import Average
from mtkit.search.single_path import Walk
from tests.unit.search.scripted import ScriptedModel

MAX = 5


def request(count: int) -> Request:
    return Request.of(torch.arange(count), torch.full((count,), MAX))


def slow_groups(model, sentence: int, groups: int, width: int, strength: float) -> list[list[tuple[float, tuple]]]:
    """Every group keeps its own live and ended hypotheses; nothing is batched and no group ends early."""
    live = [[(0.0, ())] for _ in range(groups)]
    ended: list[list[tuple[float, tuple]]] = [[] for _ in range(groups)]
    for length in range(MAX + 1):
        used: collections.Counter = collections.Counter()
        for g in range(groups):
            options, ends = [], []
            for total, tokens in live[g]:
                logp = model._of(sentence, (1, *tokens))[0].double().log_softmax(0)
                ends.append((total + float(logp[0]), tokens))
                if length < MAX:
                    options += [(total + float(logp[v]), (*tokens, v)) for v in range(3, model.vocab)]
            options.sort(key=lambda o: -(o[0] - strength * used[o[1][-1]]))
            options = options[:width]
            for total, tokens in ends:
                better = sum(o[0] > total for o in options) + sum(e[0] > total for e in ends)
                if better < width:
                    ended[g].append((total / (len(tokens) + 1), tokens))
            live[g] = options
            used.update(tokens[-1] for _, tokens in options)
    return [sorted(found, reverse=True) for found in ended]


@pytest.mark.parametrize("strength", [0.0, 0.7, 3.0])
@pytest.mark.parametrize(("groups", "width"), [(2, 2), (3, 1), (3, 2)])
def test_diverse_groups_are_those_of_the_slow_version(strength, groups, width):
    model = ScriptedModel(vocab=7, seed=21)
    search = BeamSearch(
        beam_size=groups * width,
        n_best=groups * width,
        symbols=model.symbols,
        penalty=Average(1.0),
        patience=math.inf,
        selection=Diverse(groups, strength),
    )
    for sentence, hypotheses in enumerate(search(model, request(8))):
        slow = [found[:width] for found in slow_groups(model, sentence, groups, width, strength)]
        truth = sorted({entry for found in slow for entry in found}, reverse=True)[: groups * width]
        assert [tuple(h.tokens) for h in hypotheses] == [tokens for _, tokens in truth]
        assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in truth], abs=1e-5)


def test_an_ensemble_of_a_model_with_itself_changes_nothing():
    model = ScriptedModel(vocab=9, seed=22)
    for search in (
        BeamSearch(beam_size=4, n_best=4, symbols=model.symbols, penalty=Average(1.0), with_attention=True),
        Walk(symbols=model.symbols, penalty=Average(1.0), with_attention=True),
    ):
        alone, both = search(model, request(12)), search(Ensemble([model, model, model]), request(12))
        for a, b in zip(alone, both, strict=True):
            assert [h.tokens for h in a] == [h.tokens for h in b]
            for one, other in zip(a, b, strict=True):
                assert one.piece_log_probs == pytest.approx(other.piece_log_probs, abs=1e-5)
                torch.testing.assert_close(one.attention, other.attention)


def test_an_ensemble_is_the_mean_of_its_distributions():
    models = [ScriptedModel(vocab=6, seed=seed) for seed in (23, 24)]
    search = BeamSearch(beam_size=100, n_best=1, symbols=models[0].symbols, penalty=Average(0.0), patience=math.inf)
    found = search(Ensemble(models), Request.of(torch.arange(4), torch.full((4,), 3)))

    def total(sentence: int, tokens: tuple[int, ...]) -> float:
        pairs = zip(*(model.log_probs(sentence, tokens) for model in models), strict=True)
        return sum(math.log((math.exp(a) + math.exp(b)) / 2) for a, b in pairs)

    for sentence, (h,) in enumerate(found):
        best = max(models[0].all_sentences(3), key=lambda s, sentence=sentence: total(sentence, s))
        assert tuple(h.tokens) == best
        assert h.log_prob == pytest.approx(total(sentence, best), abs=1e-5)


def test_an_ensemble_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no models"):
        Ensemble([])
