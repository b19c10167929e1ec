"""The recipe's `search:`."""

from __future__ import annotations

import pytest

from mtkit.errors import RecipeError
from mtkit.recipe.tree import load_search
from mtkit.search.beam import BeamSearch
from mtkit.search.beam_state import DiverseBeam
from mtkit.search.config import (
    BeamConfig,
    DiverseBeamConfig,
    LengthLimit,
    MaxLength,
    MinimumBayesRiskConfig,
    SamplingConfig,
    SearchConfig,
)
from mtkit.search.hypothesis import SpecialIds
from mtkit.search.length_penalty import GNMT, Average
from mtkit.search.single_path import SinglePathSearch

SPECIAL_IDS = SpecialIds(vocab_size=8, bos=1, eos=0)


def test_length_limits():
    assert LengthLimit(factor=0.5, offset=2).of(7) == 5
    assert MaxLength().of(7) == 24
    assert MaxLength(max=20).of(7) == 20
    assert SearchConfig().limited_to(9).limited_to(8).limited_to(None).max_length.max == 7
    assert SearchConfig(max_length=MaxLength(max=3)).limited_to(9).max_length.max == 3


def test_number_as_length_penalty():
    assert SearchConfig(length_penalty=0.7).penalty() == Average(alpha=0.7)
    assert SearchConfig(length_penalty=GNMT(alpha=0.7)).penalty() == GNMT(alpha=0.7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_best": 6}, r"n_best: 6 exceeds beam_size 5; lower n_best \(--n-best\) or raise beam_size"),
        (
            {"n_best": 3, "method": SamplingConfig(num_samples=2)},
            r"n_best: 3 exceeds method.num_samples 2; lower n_best \(--n-best\) or raise method.num_samples",
        ),
        (
            {"beam_size": 1, "rerank": MinimumBayesRiskConfig()},
            "rerank: there is only one hypothesis .*; raise beam_size",
        ),
        ({"rerank": MinimumBayesRiskConfig(), "method": SamplingConfig()}, r"rerank: .*; raise method.num_samples"),
        ({"beam_size": 4, "method": DiverseBeamConfig(groups=3)}, r"method.groups: 3 does not divide beam_size 4"),
    ],
)
def test_contradictions_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        SearchConfig(**changes)


@pytest.mark.parametrize(
    ("overrides", "beam_size"),
    [
        (["n_best=3"], 5),
        (["n_best=8"], 8),
        (["search.n_best=8", "search.length_penalty=0.5"], 8),
        (["n_best=8", "beam_size=9"], 9),
        (["n_best=8", "method.kind=sampling", "method.num_samples=8"], 5),
    ],
)
def test_more_translations_widen_the_beam(overrides, beam_size):
    assert load_search(SearchConfig(), overrides).beam_size == beam_size


def test_a_stated_beam_is_not_widened():
    with pytest.raises(RecipeError, match="n_best: 8 exceeds beam_size 4"):
        load_search(SearchConfig(), ["n_best=8", "beam_size=4"])


def test_method_and_beam_size_determine_the_search():
    def built(**changes):
        return SearchConfig(**changes).build(SPECIAL_IDS)

    assert isinstance(built(), BeamSearch)
    assert isinstance(built(beam_size=1), SinglePathSearch)
    assert isinstance(built(beam_size=1, coverage_penalty=0.2), BeamSearch)
    diverse = DiverseBeam(groups=2, diversity_strength=0.5)
    assert built(beam_size=6, method=DiverseBeamConfig(groups=2)).selector == diverse
    sampling = SamplingConfig(num_samples=3)
    assert (built(method=sampling).choose, built(method=sampling).num_paths) == (sampling.chooser(), 3)


def test_plain_beam_keeps_limits_and_constraints():
    search = SearchConfig(
        method=SamplingConfig(num_samples=9), n_best=9, rerank=MinimumBayesRiskConfig(), no_repeat_ngram=3
    )
    plain = search.with_plain_beam(2)
    assert (plain.beam_size, plain.n_best, plain.rerank, plain.method) == (2, 1, None, BeamConfig())
    assert plain.no_repeat_ngram == 3


def test_reranking_needs_all_hypotheses():
    assert SearchConfig(beam_size=4, n_best=2).num_returned == 2
    assert SearchConfig(beam_size=4, n_best=2, rerank=MinimumBayesRiskConfig()).num_returned == 4
