"""Interfaces of self-attention: the kernel between the projections, and the sublayer.

A new kernel is one file with a kernel class, and its configuration in the union `AttentionConfig` of
`mtkit/layers/attention/config.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import Tensor, nn

from mtkit.layers.cache.kv_cache import KVCache
from mtkit.layers.cache.state import AttentionState, BatchedState
from mtkit.layers.heads import Heads
from mtkit.layers.norms.residual import Sublayer

if TYPE_CHECKING:
    from mtkit.layers.attention.capabilities import AttentionConfigBase
    from mtkit.layers.attention.multi_head import AttentionParts

StateT = TypeVar("StateT", bound=AttentionState)
S = TypeVar("S", bound=BatchedState)


class AttentionKernel(nn.Module, Generic[StateT]):
    """Computation between the query/key/value projections and the output projection; it defines the decoder state."""

    def __init__(self, config: AttentionConfigBase, parts: AttentionParts) -> None:
        super().__init__()

    def forward(self, q: Tensor, new: KVCache, past: StateT | None) -> tuple[Tensor, StateT]:
        """Attend from T new tokens to the past and to each other.

        Args:
            q: [B, H, T, K], queries of the new tokens.
            new: keys, values and positions of the new tokens.
            past: state that this kernel returned for the preceding tokens; all new tokens are then real.

        Returns:
            Weighted values [B, H, T, K], zeros for a query that sees no key; and the state after the new tokens.
        """
        raise NotImplementedError

    def initial_state(self, num_sentences: int, heads: Heads, device: torch.device) -> StateT | None:
        """State before the first token of a decoder; None if the kernel makes it from the first token."""
        return None


class TokenMixer(Sublayer):
    """Sublayer through which tokens exchange information: self-attention, or a replacement in a decoder."""

    @abstractmethod
    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState]:
        """Process T tokens after the `past`.

        Args:
            x: [B, T, D].
            pos: [B, T].
            real: [B, T], or None if all tokens are real; only without `past`.
            past: state after the preceding tokens; all new tokens are then real.

        Returns:
            [B, T, D], and the state after the last token.
        """

    def initial_state(self, num_sentences: int, device: torch.device) -> BatchedState | None:
        """State before the first token; None if `forward` makes it from the first token."""
        return None


def check_state(state: BatchedState | None, kind: type[S]) -> S | None:
    """The state, for layers that compute with its fields.

    Raises:
        ValueError: a layer of another kind returned it.
    """
    if state is not None and not isinstance(state, kind):
        raise ValueError(f"expected the state {kind.__name__}, not {type(state).__name__} of another kind of layer")
    return state
