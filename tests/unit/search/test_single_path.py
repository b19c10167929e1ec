"""Greedy search against beam search."""

from __future__ import annotations

import math

import pytest
import torch

from tests.unit.search.scripted import ScriptedModel, beam, request, single_path


@pytest.mark.parametrize("min_length", [0, 3])
@pytest.mark.parametrize("with_log_probs", [True, False])
def test_greedy_is_a_beam_of_one(min_length, with_log_probs):
    model = ScriptedModel(vocab=9, seed=5)
    asked = request(list(range(40)), 8, min_length=torch.full((40,), min_length))
    greedy = single_path(model, with_log_probs=with_log_probs, with_attention=True)
    beam_of_one = beam(model, beam_size=1, n_best=1, patience=1.0, with_attention=True)
    for (a,), (b,) in zip(greedy(model, asked), beam_of_one(model, asked), strict=True):
        assert a.tokens == b.tokens
        assert a.finished == b.finished
        torch.testing.assert_close(a.attention, b.attention)
        if with_log_probs:
            assert a.token_log_probs == pytest.approx(b.token_log_probs, abs=1e-5)
            assert (a.log_prob, a.score) == pytest.approx((b.log_prob, b.score), abs=1e-5)
        else:
            assert math.isnan(a.log_prob)


def test_maximum_length_zero():
    model = ScriptedModel(seed=6)
    for with_log_probs in (True, False):
        greedy = single_path(model, with_log_probs=with_log_probs)
        assert [h[0].tokens for h in greedy(model, request([0, 1], 0))] == [[], []]


def test_empty_request():
    model = ScriptedModel(seed=6)
    assert single_path(model)(model, request([], 0)) == []
    assert beam(model, beam_size=2, n_best=1)(model, request([], 0)) == []
