"""Output projection in the native library: logits, the best tokens of beams, and the most probable token."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from mtkit.inference.bf16 import projections
from mtkit.inference.int8 import ZERO_POINT
from mtkit.inference.native.library import native
from mtkit.inference.native.linear import NativeLinear
from mtkit.inference.native.packing import PackedLinear, address, check
from mtkit.inference.native.structures import Beams, Pruned
from mtkit.inference.native.threads import run_in_parts
from mtkit.inference.pruned_argmax import RoundedWeights
from mtkit.models.interface import OutputProjection, Ranking, RankingRequest, TranslationModel


class NativeOutput(NativeLinear, OutputProjection):
    """An output projection with packed weights.

    Attributes:
        weight: [V, D].
        bias: [V] or None.
        dtype: type of the packed weights.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        """See NativeLinear."""
        super().__init__(weight, bias, dtype)
        self.weight, self.bias, self.dtype = weight.detach().float().contiguous(), bias, dtype
        self.pruned = PrunedArgmax(self.weight) if bias is None and native().supports(torch.int8) else None

    def argmax(self, hidden: Tensor, banned: Tensor) -> tuple[Tensor, Tensor] | None:
        """See OutputProjection; exact for every type of the packed weights."""
        return None if self.pruned is None else self.pruned(hidden.contiguous(), banned.int())

    def ranking(self, hidden: Tensor, log_prob: Tensor, request: RankingRequest) -> Ranking:
        """See OutputProjection."""
        hidden, log_prob, excluded = hidden.contiguous(), log_prob.contiguous(), request.excluded.int()
        rows, width, count = hidden.size(0), request.rows_per_beam, request.count
        beams, count = rows // width, min(count, width * self.weight.size(0))
        value, normaliser, end = (hidden.new_empty(size) for size in (beams * count, rows, rows))
        row, column = torch.empty(2, beams, count, dtype=torch.int64).unbind()
        value = value.view(beams, count)
        linear = ctypes.byref(self.packed.linear)

        def rank(first: int, number: int) -> None:
            beam = first // width
            beams = Beams(
                address(log_prob[first:]),
                address(excluded),
                excluded.numel(),
                width,
                request.end,
                count,
                *(address(each[beam:]) for each in (value, row, column)),
                *(address(each[first:]) for each in (normaliser, end)),
            )
            check(self.functions.mtkit_rank(linear, address(hidden[first:]), number, ctypes.byref(beams)))
            if first:
                row[beam : beam + number // width] += first

        run_in_parts(rank, rows, width)
        return Ranking(value, row, column, normaliser, end)


class PrunedArgmax:
    """The largest output of a projection without a bias, by the bound of Int8PrunedArgmax (inference/pruned_argmax.py).

    The call is `argmax` of OutputProjection.
    """

    def __init__(self, weight: Tensor) -> None:
        """Pack weights [V, D], which are kept for the outputs that the bound cannot exclude."""
        self.weight = weight
        rounded = RoundedWeights.of(weight)
        self.packed = PackedLinear.of_converted((rounded.integers + ZERO_POINT).to(torch.uint8), None)
        norms = (rounded.max_weight_norm, rounded.max_rounding_norm)
        self.structure = Pruned(self.packed.linear, address(weight), rounded.scale, *norms)

    def __call__(self, hidden: Tensor, banned: Tensor) -> tuple[Tensor, Tensor]:
        """Column and value [rows] of the largest logit of hidden [rows, D]."""
        value, column = hidden.new_empty(hidden.size(0)), torch.empty(hidden.size(0), dtype=torch.int64)
        functions: Any = native().functions

        def find(first: int, rows: int) -> None:
            inputs = (address(hidden[first:]), rows, address(banned), banned.numel())
            results = (address(column[first:]), address(value[first:]))
            check(functions.mtkit_most_probable(ctypes.byref(self.structure), *inputs, *results))

        run_in_parts(find, hidden.size(0))
        return column, value


def use_native_projections(model: TranslationModel, dtype: torch.dtype) -> None:
    """Let all projections of a model compute in the native library, except those of tables in position encodings."""
    for parent, name, projection in list(projections(model)):
        kind = NativeOutput if projection is model.output else NativeLinear
        setattr(parent, name, kind(projection.weight, projection.bias, dtype))
