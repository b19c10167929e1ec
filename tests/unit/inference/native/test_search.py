"""Search with a native model: ranking in the library gives the hypotheses of the ranking of all logits."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from mtkit.inference.native.model import NativeTransformer
from mtkit.inference.native.output import NativeOutput
from mtkit.models.interface import Step
from mtkit.search.beam.coverage import Coverage
from mtkit.search.beam.diverse import DiverseBeam
from mtkit.search.constraints.repeats import NoRepeatNgram
from mtkit.search.interface import SearchRequest
from mtkit.search.method_config import SamplingConfig
from mtkit.search.run import Search
from mtkit.search.single_path import SinglePathSearch
from tests.unit.inference.native.toy_models import right_padded
from tests.unit.inference.native.toy_searches import (
    LENGTHS,
    LIMITS,
    assert_equal,
    beam,
    few,
    model_that_ends,
    parts,
    request,
)

pytestmark = pytest.mark.usefixtures("library")


class CountingStepper:
    """A model that counts the uses of the paths without logits; `is_fast`: False refuses them."""

    def __init__(self, model: NativeTransformer, *, is_fast: bool) -> None:
        self.model, self.is_fast, self.rankings, self.argmaxima = model, is_fast, 0, 0

    def start(self, source: Any) -> Any:
        return self.model.start(source)

    def step(self, token: Tensor, state: Any) -> Step:
        stepper = self

        class CountedStep(Step):
            def fast_ranking(self, *args: Any, **request: Any) -> Any:
                stepper.rankings += 1
                return super().fast_ranking(*args, **request) if stepper.is_fast else None

            def fast_argmax(self, banned: Tensor) -> Any:
                stepper.argmaxima += 1
                return super().fast_argmax(banned) if stepper.is_fast else None

        return CountedStep(*self.model.step(token, state))


def both(model: NativeTransformer, search: Search, asked: SearchRequest) -> CountingStepper:
    """Compare the search with that by logits; returns the stepper of the first."""
    fast, slow = (CountingStepper(model, is_fast=is_fast) for is_fast in (True, False))
    found, expected = search(fast, asked), search(slow, asked)
    assert_equal(found, expected)
    assert len({len(hypotheses[0].tokens) for hypotheses in found}) > 1
    return fast


SEARCHES = {
    "n_best": (beam(), {}),
    "one hypothesis": (beam(beam_size=1, n_best=1), {}),
    "wide": (beam(beam_size=17, n_best=17), {}),
    "wider than the vocabulary": (beam(beam_size=70, n_best=5), {}),
    "patience": (beam(patience=math.inf), {}),
    "attention": (beam(with_attention=True, coverage=Coverage(0.3)), {}),
    "length limits": (beam(), LIMITS),
    "diverse groups": (beam(DiverseBeam(groups=2, diversity_strength=0.5), beam_size=6), {}),
    "many diverse groups": (beam(DiverseBeam(groups=4, diversity_strength=2.0), n_best=1), LIMITS),
}


@pytest.mark.parametrize(("search", "changes"), SEARCHES.values(), ids=SEARCHES)
def test_a_beam_is_ranked_like_its_logits(search, changes, model) -> None:
    assert both(model, search, request(**changes)).rankings > 0


@pytest.mark.usefixtures("two_threads")
def test_a_beam_is_ranked_like_its_logits_by_two_threads(model) -> None:
    assert both(model, beam(), request()).rankings > 0


@pytest.mark.parametrize("changes", [{}, LIMITS], ids=["plain", "limits"])
def test_greedy_search_takes_the_largest_logit(changes, model) -> None:
    greedy, asked = SinglePathSearch(parts(with_log_probs=False)), request(**changes)
    # The largest logit is that of float32 weights, whatever the type of the packed ones.
    exact = model_that_ends(model.output.dtype)
    exact.output = NativeOutput(exact.output.weight, None, torch.float32)
    fast, slow = CountingStepper(model, is_fast=True), CountingStepper(exact, is_fast=False)
    assert_equal(greedy(fast, asked), greedy(slow, asked))
    assert fast.argmaxima > 0
    assert both(model, SinglePathSearch(parts()), asked).argmaxima == 0  # log-probabilities need all logits


def test_sampling_does_not_need_rankings(model) -> None:
    sampling = SinglePathSearch(parts(n_best=2), SamplingConfig(seed=3, top_k=20).chooser(), 3)
    stepper = both(model, sampling, request())
    assert stepper.rankings == stepper.argmaxima == 0


def test_constraints_are_applied_to_the_logits(model) -> None:
    assert both(model, beam(constraints=(NoRepeatNgram(1),)), request()).rankings == 0


@pytest.mark.parametrize("beam_size", [1, 4])
def test_batches_and_order_change_nothing(beam_size, model) -> None:
    search, source = beam(beam_size=beam_size, n_best=beam_size, with_attention=True), right_padded(LENGTHS)
    together = search(model, request())
    for order in ([9, 8, 7, 6, 5, 4, 3, 2, 1, 0], [3], [4, 0], [1, 7]):
        some = source.select(torch.tensor(order))
        results = search(model, request(source=some, max_length=torch.tensor(LENGTHS)[order] + 8, **few(len(order))))
        for found, sentence in zip(results, order, strict=True):
            for one, other in zip(found, together[sentence], strict=True):
                assert (one.tokens, one.score, one.token_log_probs) == (
                    other.tokens,
                    other.score,
                    other.token_log_probs,
                )


def test_a_sentence_that_is_not_finite_fails_alone(model) -> None:
    search, asked = beam(), request()
    expected = search(model, asked)
    model.src_embedding = copy.deepcopy(model.src_embedding)  # shared with the target side
    model.src_embedding.table.weight.data[asked.source.ids[4, 11]] = float("nan")
    is_hit = (asked.source.ids == asked.source.ids[4, 11]).logical_and(asked.source.real).any(1).tolist()
    found = search(model, asked)
    assert [hypotheses[0].failed for hypotheses in found] == is_hit
    assert not all(is_hit)
    for hypotheses, before, failed in zip(found, expected, is_hit, strict=True):
        assert failed or [each.tokens for each in hypotheses] == [each.tokens for each in before]
