"""Recurrent decoders that attend after each step (Luong et al. 2015, https://arxiv.org/abs/1508.04025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.layer_call import Passing
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.cells import CellState
from mtkit.layers.recurrent.deferred_weight_grad import joined
from mtkit.layers.recurrent.dropout import FreshDropout
from mtkit.layers.recurrent.input_feeding import FedState, FeedingLayers
from mtkit.layers.recurrent.readout import Readout
from mtkit.layers.recurrent.stack import RecurrentEncoder, RecurrentStack
from mtkit.layers.recurrent_embedding import Tables
from mtkit.models.interface import State, Step
from mtkit.models.rnn.base import AttentionModel, Bridge, DecoderCache


class LuongRNN(AttentionModel):
    """A recurrent stack; its top state attends, and state and context together give h~ (sec. 3, eq. 5).

    What was attended to has no part in the next step, so that training runs the stack and then attends at once.
    """

    def __init__(
        self,
        embeddings: Tables,
        encoder: RecurrentEncoder,
        *,
        decoder: RecurrentStack,
        attention: RecurrentAttention,
        bridges: Sequence[Bridge],
        readout: Readout,
        dropout: FreshDropout,
    ) -> None:
        super().__init__(embeddings, encoder, bridges, dropout)
        self.decoder = decoder
        self.attention = attention
        self.readout = readout

    def attends_by(self) -> RecurrentAttention:
        """See AttentionModel."""
        return self.attention

    def before(self, states: tuple[CellState, ...]) -> DecoderCache:
        """See AttentionModel."""
        return DecoderCache(states)

    def hidden(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the true prefix; D is the readout's width."""
        memory, states = self.encode(source)
        h, _ = self.decoder(self.tgt_embedding(target.ids), target.real, states)
        contexts, _ = self.attention.unroll(memory)(h.flatten(0, 1))  # [B·T, M]
        return self.dropout(self.readout(joined(h, contexts.view(*h.shape[:2], contexts.size(1)))))

    def step(self, token: Tensor, state: State) -> Step:
        """Feed one token [rows] per hypothesis."""
        memory, cache = state.memory, state.cache
        if not isinstance(cache, DecoderCache) or not isinstance(memory, Annotations):
            raise ValueError(f"a state of another model: {type(cache).__name__}, {type(memory).__name__}")
        h, layers = self.decoder.advance(self.tgt_embedding(token), cache.layers)
        context, weights = self.attention.unroll(memory)(h)
        read = self.dropout(self.readout(joined(h, context)))
        return Step(read, replace(state, cache=DecoderCache(layers)), weights.unsqueeze(1))


class InputFeedingRNN(AttentionModel, Passing):
    """The same with h~ of each step among the inputs of the next (sec. 3.3): see FeedingLayers."""

    def __init__(
        self,
        embeddings: Tables,
        encoder: RecurrentEncoder,
        *,
        decoder: FeedingLayers,
        bridges: Sequence[Bridge],
        dropout: FreshDropout,
    ) -> None:
        super().__init__(embeddings, encoder, bridges, dropout)
        self.decoder = decoder

    def attends_by(self) -> RecurrentAttention:
        """See AttentionModel."""
        return self.decoder.attention

    def before(self, states: tuple[CellState, ...]) -> FedState:
        """See AttentionModel."""
        return FedState(states, states[0].h.new_zeros(states[0].h.size(0), self.output.in_features))

    def hidden(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the true prefix; D is the readout's width."""
        memory, states = self.encode(source)
        x = self.tgt_embedding(target.ids)
        return self.dropout(self.passage(self.decoder, x, target.real, memory, self.before(states)))

    def step(self, token: Tensor, state: State) -> Step:
        """Feed one token [rows] per hypothesis."""
        memory, cache = state.memory, state.cache
        if not isinstance(cache, FedState) or not isinstance(memory, Annotations):
            raise ValueError(f"a state of another model: {type(cache).__name__}, {type(memory).__name__}")
        following, weights = self.decoder.unroll(memory)(self.tgt_embedding(token), cache)
        return Step(self.dropout(following.fed), replace(state, cache=following), weights.unsqueeze(1))
