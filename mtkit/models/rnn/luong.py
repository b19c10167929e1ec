"""Recurrent models with attention after each decoder step (Luong et al. 2015, https://arxiv.org/abs/1508.04025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.layer_call import LayerStack
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.cells import CellState
from mtkit.layers.recurrent.deferred_weight_grad import concat_features
from mtkit.layers.recurrent.dropout import PerStepDropout
from mtkit.layers.recurrent.input_feeding import InputFeedingStack, InputFeedingState
from mtkit.layers.recurrent.readout import Readout
from mtkit.layers.recurrent.stack import RecurrentEncoder, RecurrentStack
from mtkit.models.embeddings import TiedEmbeddings
from mtkit.models.interface import State, Step
from mtkit.models.rnn.base import AttentionalRNN, Bridge, RNNCache


class LuongRNN(AttentionalRNN):
    """Recurrent stack whose top state h_t attends to the source: h~_t = readout([c_t; h_t]). Sec. 3, eq. 5.

    The context does not influence the next step. Training therefore runs the stack over the whole target first and
    then computes attention for all positions together.
    """

    def __init__(
        self,
        embeddings: TiedEmbeddings,
        encoder: RecurrentEncoder,
        *,
        decoder: RecurrentStack,
        attention: RecurrentAttention,
        bridges: Sequence[Bridge],
        readout: Readout,
        dropout: PerStepDropout,
    ) -> None:
        super().__init__(embeddings, encoder, bridges, dropout)
        self.decoder = decoder
        self.readout_width = embeddings.output.in_features
        self.attention = attention
        self.readout = readout

    def source_attention(self) -> RecurrentAttention:
        """See AttentionalRNN."""
        return self.attention

    def init_cache(self, states: tuple[CellState, ...]) -> RNNCache:
        """See AttentionalRNN."""
        return RNNCache(states)

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the reference prefix; D is the readout's width."""
        memory, states = self.encode(source)
        h, _ = self.decoder(self.tgt_embedding(target.ids), target.real, states)
        contexts, _ = self.attention.make_attend_fn(memory)(h.flatten(0, 1))  # [B·T, M]
        return self.dropout(self.readout(concat_features(h, contexts.view(*h.shape[:2], contexts.size(1)))))

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel."""
        memory, cache = state.memory, state.cache
        if not isinstance(cache, RNNCache) or not isinstance(memory, Annotations):
            raise ValueError(f"state of another model: {type(cache).__name__}, {type(memory).__name__}")
        h, layers = self.decoder.step(self.tgt_embedding(token), cache.layers)
        context, weights = self.attention.make_attend_fn(memory)(h)
        attentional = self.dropout(self.readout(concat_features(h, context)))  # [rows, D], h~
        return Step(attentional, replace(state, cache=RNNCache(layers)), weights.unsqueeze(1))


class InputFeedingRNN(AttentionalRNN, LayerStack):
    """LuongRNN with input feeding: h~ of each step is an input of the next. Sec. 3.3, see InputFeedingStack."""

    def __init__(
        self,
        embeddings: TiedEmbeddings,
        encoder: RecurrentEncoder,
        *,
        decoder: InputFeedingStack,
        bridges: Sequence[Bridge],
        dropout: PerStepDropout,
    ) -> None:
        super().__init__(embeddings, encoder, bridges, dropout)
        self.decoder = decoder
        self.readout_width = embeddings.output.in_features

    def source_attention(self) -> RecurrentAttention:
        """See AttentionalRNN."""
        return self.decoder.attention

    def init_cache(self, states: tuple[CellState, ...]) -> InputFeedingState:
        """See AttentionalRNN."""
        return InputFeedingState(states, states[0].h.new_zeros(states[0].h.size(0), self.readout_width))

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the reference prefix; D is the readout's width."""
        memory, states = self.encode(source)
        x = self.tgt_embedding(target.ids)
        return self.dropout(self.call_layer(self.decoder, x, target.real, memory, self.init_cache(states)))

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel."""
        memory, cache = state.memory, state.cache
        if not isinstance(cache, InputFeedingState) or not isinstance(memory, Annotations):
            raise ValueError(f"state of another model: {type(cache).__name__}, {type(memory).__name__}")
        next_cache, weights = self.decoder.make_step_fn(memory)(self.tgt_embedding(token), cache)
        return Step(self.dropout(next_cache.attentional), replace(state, cache=next_cache), weights.unsqueeze(1))
