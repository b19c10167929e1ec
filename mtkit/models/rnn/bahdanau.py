"""Recurrent decoder that attends before each step (Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.layer_call import Passing
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.bahdanau import AttendingLayer
from mtkit.layers.recurrent.cells import CellState
from mtkit.layers.recurrent.deferred_weight_grad import joined
from mtkit.layers.recurrent.dropout import FreshDropout
from mtkit.layers.recurrent.readout import Readout
from mtkit.layers.recurrent.stack import RecurrentEncoder, RecurrentStack
from mtkit.layers.recurrent_embedding import Tables
from mtkit.models.interface import State, Step
from mtkit.models.rnn.base import AttentionModel, Bridge, DecoderCache


class AttentionRNN(AttentionModel, Passing):
    """A decoder whose first layer attends, with further layers above it."""

    def __init__(
        self,
        embeddings: Tables,
        encoder: RecurrentEncoder,
        *,
        attending: AttendingLayer,
        upper: RecurrentStack,
        bridges: Sequence[Bridge],
        readout: Readout,
        dropout: FreshDropout,
    ) -> None:
        super().__init__(embeddings, encoder, bridges, dropout)
        self.attending = attending
        self.upper = upper
        self.readout = readout

    def attends_by(self) -> RecurrentAttention:
        """See AttentionModel."""
        return self.attending.attention

    def before(self, states: tuple[CellState, ...]) -> DecoderCache:
        """See AttentionModel."""
        return DecoderCache(states)

    def hidden(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the true prefix; D is the readout's width."""
        memory, states = self.encode(source)
        x = self.tgt_embedding(target.ids)
        attended = self.passage(self.attending, x, target.real, memory, states[0])
        h, _ = self.upper(self.dropout(attended.h) if len(self.upper) else attended.h, target.real, states[1:])
        return self._read(h, x, attended.contexts)

    def step(self, token: Tensor, state: State) -> Step:
        """Feed one token [rows] per hypothesis."""
        memory, cache = state.memory, state.cache
        if not isinstance(cache, DecoderCache) or not isinstance(memory, Annotations):
            raise ValueError(f"a state of another model: {type(cache).__name__}, {type(memory).__name__}")
        x = self.tgt_embedding(token)
        first = self.attending.advance(x, memory, cache.layers[0])
        h, layers = self.upper.advance(self.dropout(first.h) if len(self.upper) else first.h, cache.layers[1:])
        following = replace(state, cache=DecoderCache((first.state, *layers)))
        return Step(self._read(h, x, first.context), following, first.weights.unsqueeze(1))

    def _read(self, h: Tensor, x: Tensor, context: Tensor) -> Tensor:
        """The paper's t_i of s_i (eq. 4; its appendix writes s_{i-1}), E y_{i-1} and c_i: [..., D]."""
        return self.dropout(self.readout(joined(h, x, context)))
