"""What weighs values by queries and keys in attention of a sequence to itself."""

from __future__ import annotations

from torch import Tensor, nn

from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.state import Rows


class SelfKernel(nn.Module):
    """The part of self-attention between the projections; it also decides what a decoder remembers."""

    def attend(self, q: Tensor, new: KeyValues, past: Rows | None) -> tuple[Tensor, Rows]:
        """Let T new tokens attend to the past and to themselves.

        Args:
            q: [B, H, T, K], queries of the new tokens.
            new: their keys, values and positions.
            past: what this kernel returned for the tokens before them; the new ones are then all real.

        Returns:
            The weighted values [B, H, T, K], and what to remember. A query that sees nothing yields zeros.
        """
        raise NotImplementedError


def with_new(past: Rows | None, new: KeyValues) -> KeyValues:
    """All keys and values so far.

    Raises:
        ValueError: another kind of kernel made the past.
    """
    if past is None:
        return new
    if not isinstance(past, KeyValues):
        raise ValueError(f"a state of another kind of attention: {type(past).__name__}")
    return past.append(new.k, new.v, new.pos)
