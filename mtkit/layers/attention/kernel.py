"""Interfaces of self-attention: the kernel between the projections, the sublayer, and capabilities of a kind.

A new kernel is one file with a kernel class and its Config, and one line in the union `AttentionConfig` of
`mtkit/layers/attention/__init__.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from mtkit.layers.cache.kv_cache import KVCache
from mtkit.layers.cache.state import AttentionState, BatchedState
from mtkit.layers.heads import Heads
from mtkit.layers.norms.residual import Sublayer

StateT = TypeVar("StateT", bound=AttentionState)
S = TypeVar("S", bound=BatchedState)


class AttentionKernel(nn.Module, Generic[StateT]):
    """Computation between the query/key/value projections and the output projection; it defines the decoder state."""

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


@dataclass(frozen=True, kw_only=True)
class AttentionConfigBase:
    """Capabilities of a kind of self-attention, which checks of recipes ask for; a kind overrides those that differ."""

    is_causal_capable: ClassVar[bool] = True  # can hide following tokens, as a decoder needs
    is_encoder_capable: ClassVar[bool] = True  # can attend to following tokens, as an encoder should
    has_queries_and_keys: ClassVar[bool] = True  # which rotary encodings and score biases act on
    computes_scores: ClassVar[bool] = True  # one for each pair of tokens, to which score biases are added
    is_recommended: ClassVar[bool] = True  # messages suggest it as a remedy; false of kinds for comparison
    needs_equal_heads: ClassVar[bool] = False  # has as many key/value heads as query heads
    needs_positions: ClassVar[bool] = False  # cannot infer the order of tokens from its own pattern

    @property
    def length_limit(self) -> int | None:
        """Maximum sentence length in tokens, end of sentence included; None if unlimited."""
        return None


def check_state(state: BatchedState | None, kind: type[S]) -> S | None:
    """The state, for layers that compute with its fields.

    Raises:
        ValueError: a layer of another kind returned it.
    """
    if state is not None and not isinstance(state, kind):
        raise ValueError(f"expected the state {kind.__name__}, not {type(state).__name__} of another kind of layer")
    return state
