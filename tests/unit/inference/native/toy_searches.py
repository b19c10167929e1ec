"""Searches of small models, requests, and the comparison of hypotheses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from mtkit.inference.native.model import NativeTransformer
from mtkit.inference.native.search import NativeSearch, _is_plain
from mtkit.search.beam.beam import BeamSearch
from mtkit.search.beam.selection import TopExtensions
from mtkit.search.interface import Hypothesis, SearchRequest, SpecialIds
from mtkit.search.length_penalty import Average
from mtkit.search.run import Search, SearchParts
from tests.unit.inference.native.toy_models import V, build, right_padded

BOS, EOS = 2, 3
LENGTHS = [5, 1, 9, 3, 12, 4, 7, 2, 6, 10]
LIMITS = {"max_length": torch.arange(10) % 7, "min_length": torch.arange(10) % 4}


def model_that_ends(dtype: torch.dtype, factor: float = 2) -> NativeTransformer:
    """A model whose sentences end at various lengths; the factor is that of the logits of the end."""
    written = build()
    with torch.no_grad():
        written.output.weight[EOS] *= factor
    return NativeTransformer(written, dtype)


def parts(**changes: Any) -> SearchParts:
    special_ids = SpecialIds(vocab_size=V, bos=BOS, eos=EOS, banned=(0, BOS))
    return SearchParts(special_ids=special_ids, length_penalty=Average(alpha=1.0), **changes)


def beam(selector: Any = None, **changes: Any) -> BeamSearch:
    return BeamSearch(parts(**{"beam_size": 4, "n_best": 3, **changes}), selector or TopExtensions())


def request(**changes: Any) -> SearchRequest:
    source = right_padded(LENGTHS)
    plain = SearchRequest.of(source, torch.tensor(LENGTHS) + 8)
    return SearchRequest(**{**vars(plain), "real": source.real, **changes})


def assert_equal(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for some, others in zip(found, expected, strict=True):
        assert [each.tokens for each in some] == [each.tokens for each in others]
        assert [each.finished for each in some] == [each.finished for each in others]
        assert [each.failed for each in some] == [each.failed for each in others]
        for one, other in zip(some, others, strict=True):
            assert known_scores(one) == pytest.approx(known_scores(other), abs=1e-5)
            assert (one.attention is None) == (other.attention is None)
            assert one.attention is None or torch.equal(one.attention, other.attention)


def known_scores(hypothesis: Hypothesis) -> list[float]:
    """All log-probabilities; those that were not computed are NaN."""
    scores = (hypothesis.log_prob, hypothesis.score, *hypothesis.token_log_probs)
    return [score for score in scores if not math.isnan(score)]


def few(count: int) -> dict[str, Tensor]:
    """Fields of a request of fewer sentences."""
    return {"min_length": torch.zeros(count, dtype=torch.int64), "sentence_ids": torch.arange(count)}


def in_library(search: Search, model: NativeTransformer) -> NativeSearch:
    """The search, which the library must have."""
    assert _is_plain(search)
    return NativeSearch(model, search)


class OtherFunctions:
    """The library with some functions replaced."""

    def __init__(self, functions: Any, **replaced: Any) -> None:
        self.functions = functions
        vars(self).update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.functions, name)
