"""Ensembles against the mean of the members' distributions."""

from __future__ import annotations

import math

import pytest
import torch

from mtkit.search.ensemble import Ensemble
from mtkit.search.length_penalty import Average
from tests.unit.search.scripted import ScriptedModel, beam, request, single_path


def test_ensemble_of_a_model_with_itself_is_the_model():
    model = ScriptedModel(vocab=9, seed=22)
    asked = request(list(range(12)), 5)
    for search in (
        beam(model, beam_size=4, n_best=4, patience=1.0, with_attention=True),
        single_path(model, with_attention=True),
    ):
        alone, ensemble = search(model, asked), search(Ensemble([model, model, model]), asked)
        for a, b in zip(alone, ensemble, strict=True):
            assert [h.tokens for h in a] == [h.tokens for h in b]
            for one, other in zip(a, b, strict=True):
                assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)
                torch.testing.assert_close(one.attention, other.attention)


def test_ensemble_is_the_mean_of_the_distributions():
    models = [ScriptedModel(vocab=6, seed=seed) for seed in (23, 24)]
    search = beam(models[0], n_best=1, length_penalty=Average(alpha=0.0))
    results = search(Ensemble(models), request(list(range(4)), 3))

    def total(sentence: int, tokens: tuple[int, ...]) -> float:
        pairs = zip(*(model.log_probs(sentence, tokens) for model in models), strict=True)
        return sum(math.log((math.exp(a) + math.exp(b)) / 2) for a, b in pairs)

    for sentence, (h,) in enumerate(results):
        best = max(models[0].all_sentences(3), key=lambda s, sentence=sentence: total(sentence, s))
        assert tuple(h.tokens) == best
        assert h.log_prob == pytest.approx(total(sentence, best), abs=1e-5)


def test_empty_ensemble_is_refused():
    with pytest.raises(ValueError, match="no models"):
        Ensemble([])
