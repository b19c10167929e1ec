"""The fast model: a Transformer that translates in the native library, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from mtkit.inference.fast_search import FastSearch, SearchSettings, score_targets
from mtkit.inference.packed_model import PackedTransformer
from mtkit.inference.packing import Weights, WeightType
from mtkit.search.hypothesis import Hypothesis, ScoredToken, SentenceRequest, SpecialIds


class FastModel:
    """A Transformer that the fast road takes (see served.py), packed for the native library.

    A sentence has the same result, to the last bit, in every batch and with any number of threads.
    """

    def __init__(self, packed: PackedTransformer, compute_type: WeightType) -> None:
        self._packed = packed
        self.compute_type = compute_type

    @classmethod
    def load(cls, config: Any, weights: Weights, dtype: WeightType, *, threads: int | None = None) -> Self:
        """Pack a model.

        Args:
            config: a TransformerConfig for which `unserved_model` is None.
            weights: by name, as a model folder stores them; bfloat16 as uint16. Float32 tables are not copied.
            dtype: type of the weights of projections.
            threads: on which the library computes; None: see `hardware.num_threads`.

        Raises:
            ValueError: there is no native library.
        """
        return cls(PackedTransformer(config, weights, dtype, threads), dtype)

    def search(self, requests: Sequence[SentenceRequest], settings: SearchSettings) -> list[list[Hypothesis]]:
        """The n best hypotheses of each sentence, best first; at least one each. Errors as FastSearch."""
        return FastSearch(self._packed, settings)(requests)

    def score(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], special_ids: SpecialIds
    ) -> list[list[ScoredToken]]:
        """Scores of given targets. Arguments and errors as `score_targets`."""
        return score_targets(self._packed, pairs, special_ids)
