"""Exact argmax of an output projection that computes only the outputs that an int8 bound cannot exclude."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.inference.int8 import INT8_MAX, has_fast_int8, int_mm, quantise
from mtkit.models.interface import OutputProjection, TranslationModel

GROUP_SIZE = 100  # outputs that are first reduced to their maximum
ROW_CHUNK = 128  # rows whose int8 products exist at once
FEW_ROWS = 8  # up to which all outputs take less time than the operations of pruning
LOWEST = torch.iinfo(torch.int32).min


@dataclass(frozen=True)
class RoundedWeights:
    """Weights of an output projection in 8-bit integers with one scale, and the norms that bound their error.

    Attributes:
        integers: [V, D], as floats.
        scale: `integers` times the scale are nearly the weights.
        max_weight_norm: norm of the weights of an output, maximum over the outputs; not finite if a weight is not.
        max_rounding_norm: the same of the rounding errors.
    """

    integers: Tensor
    scale: float
    max_weight_norm: float
    max_rounding_norm: float

    @classmethod
    def of(cls, weight: Tensor) -> Self:
        """Round weights [V, D]."""
        scale = max(float(weight.abs().max()), torch.finfo(weight.dtype).tiny) / INT8_MAX
        integers = (weight / scale).round_()
        norms = (float(each.norm(dim=1).max()) for each in (weight, weight - integers * scale))
        return cls(integers.nan_to_num_(0, INT8_MAX, -INT8_MAX), scale, *norms)


class Int8PrunedArgmax(nn.Linear, OutputProjection):
    """nn.Linear without a bias, with an `argmax` that prunes outputs by their int8 products.

    Let x = x̂ + δ and W = Ŵ + Δ, where x̂ and Ŵ are int8 times a scale. An output x · w differs from x̂ · ŵ by
    δ · w + x̂ · Δ, hence by at most |δ| |w| + |x̂| |Δ|. Only outputs whose int8 product is within twice this bound of the
    largest one can be the argmax: usually one of 10,000 (measured: see tests/benchmarks/NOTES.md). These are computed
    exactly.
    """

    weight_int8: Tensor  # [D, V rounded up to a multiple of GROUP_SIZE] int8
    scale: float  # of weight_int8
    max_weight_norm: float  # |w|, maximum over the outputs
    max_rounding_norm: float  # |Δ|, maximum over the outputs
    weight_rows: Tensor  # [V, D], the weights row by row
    padding_columns: Tensor  # columns of weight_int8 beyond V

    def __init__(
        self,
        weight: nn.Parameter,
        weight_int8: Tensor,
        *,
        scale: float,
        max_weight_norm: float,
        max_rounding_norm: float,
    ) -> None:
        """Make a projection from weights [V, D] and their int8 form [D, V or more]."""
        outputs, inputs = weight.shape
        super().__init__(inputs, outputs, bias=False, device="meta")
        self.weight, self.scale = weight, scale
        self.max_weight_norm, self.max_rounding_norm = max_weight_norm, max_rounding_norm
        width = -(-outputs // GROUP_SIZE) * GROUP_SIZE
        self.register_buffer("weight_int8", F.pad(weight_int8, (0, width - outputs)).contiguous())
        self.register_buffer("weight_rows", weight.detach().contiguous())
        self.register_buffer("padding_columns", torch.arange(outputs, width, device=weight.device))

    @classmethod
    def of(cls, layer: nn.Linear) -> Self:
        """The same projection as a layer's; the weights are shared.

        Raises:
            ValueError: the layer has a bias.
        """
        if layer.bias is not None:
            raise ValueError("outputs of a projection with a bias cannot be pruned")
        rounded = RoundedWeights.of(layer.weight.detach())
        return cls(
            layer.weight,
            rounded.integers.to(torch.int8).T,
            scale=rounded.scale,
            max_weight_norm=rounded.max_weight_norm,
            max_rounding_norm=rounded.max_rounding_norm,
        )

    def argmax(self, hidden: Tensor, banned: Tensor) -> tuple[Tensor, Tensor]:
        """See OutputProjection; the value is not finite in a row whose error bound is not.

        The bound is not finite if the row or any weight is not, since it contains the norms of both.
        """
        if len(hidden) <= FEW_ROWS and math.isfinite(float(hidden.norm()) * self.max_weight_norm):
            best = self(hidden).index_fill_(1, banned, float("-inf")).max(1)
            return best.indices, best.values
        return self._pruned_argmax(hidden, banned)

    def _pruned_argmax(self, hidden: Tensor, banned: Tensor) -> tuple[Tensor, Tensor]:
        """The same without computing all outputs; column 0 and value -inf where the error bound is not finite."""
        rounded, row_scale = quantise(hidden)  # [N, D], [N, 1]
        bound = self._error_bound(hidden, rounded, row_scale)  # [N, 1]
        excluded = torch.cat([banned, self.padding_columns])
        rows, columns = [], []
        for first in range(0, len(hidden), ROW_CHUNK):
            chunk = slice(first, first + ROW_CHUNK)
            row, column = self._candidates(rounded[chunk], bound[chunk], excluded)
            rows.append(row + first)
            columns.append(column)
        row, column = torch.cat(rows), torch.cat(columns)  # [M], sorted by row
        output = (hidden[row] * self.weight_rows[column]).sum(1)  # [M]
        best = output.new_full((len(hidden),), float("-inf")).scatter_reduce(0, row, output, "amax")  # [N]
        is_best = output == best[row]
        return torch.zeros_like(best, dtype=torch.int64).index_put_((row[is_best],), column[is_best]), best

    def _candidates(self, x: Tensor, bound: Tensor, excluded: Tensor) -> tuple[Tensor, Tensor]:
        """Rows and columns [M] whose int8 product is less than twice the error bound below the largest of the row.

        Args:
            x: [N, D] integers, as floats.
            bound: [N, 1], in units of the products.
            excluded: columns that must not be returned.
        """
        products = int_mm(x, self.weight_int8).index_fill_(1, excluded, LOWEST).view(len(x), -1, GROUP_SIZE)
        # Most groups hold no candidate: compare their maxima first, and look into the others only.
        group_max = products.amax(2)  # [N, V/GROUP_SIZE]
        # Without a finite bound nothing can be excluded or found: NaN compares as False, and so must infinity.
        threshold = group_max.amax(1, keepdim=True) - 2 * bound.where(bound < float("inf"), float("nan"))  # [N, 1]
        row, group = (group_max >= threshold).nonzero(as_tuple=True)
        index, in_group = (products[row, group] >= threshold[row]).nonzero(as_tuple=True)
        return row[index], group[index] * GROUP_SIZE + in_group

    def _error_bound(self, x: Tensor, rounded: Tensor, row_scale: Tensor) -> Tensor:
        """Bound [N, 1] of the error of the int8 products of rows x [N, D], in units of the products."""
        nearest = rounded * row_scale
        error: Tensor = (x - nearest).norm(dim=1, keepdim=True) * self.max_weight_norm
        error += nearest.norm(dim=1, keepdim=True) * self.max_rounding_norm
        return error / row_scale / self.scale


def use_pruned_argmax(model: TranslationModel) -> None:
    """Replace the output projection where it has no bias and the CPU has int8 products.

    The projection then stays in float32 in an int8 model as well: pruned it takes less time than Int8Linear, and its
    argmax is exact.
    """
    if model.output.bias is None and has_fast_int8():
        model.output = Int8PrunedArgmax.of(model.output)
