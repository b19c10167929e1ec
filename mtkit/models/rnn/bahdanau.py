"""Recurrent model with attention before each decoder step (Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.layer_call import LayerStack
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.bahdanau import BahdanauLayer
from mtkit.layers.recurrent.cells import CellState
from mtkit.layers.recurrent.deferred_weight_grad import concat_features
from mtkit.layers.recurrent.dropout import PerStepDropout
from mtkit.layers.recurrent.readout import Readout
from mtkit.layers.recurrent.stack import RecurrentEncoder, RecurrentStack
from mtkit.models.embeddings import TiedEmbeddings
from mtkit.models.interface import State, Step
from mtkit.models.rnn.base import AttentionalRNN, Bridge, RNNCache


class BahdanauRNN(AttentionalRNN, LayerStack):
    """Recurrent decoder whose lowest layer attends to the source (see BahdanauLayer); further layers may follow."""

    def __init__(
        self,
        embeddings: TiedEmbeddings,
        encoder: RecurrentEncoder,
        *,
        attention_layer: BahdanauLayer,
        upper_layers: RecurrentStack,
        bridges: Sequence[Bridge],
        readout: Readout,
        dropout: PerStepDropout,
    ) -> None:
        super().__init__(embeddings, encoder, bridges, dropout)
        self.attention_layer = attention_layer
        self.upper_layers = upper_layers
        self.readout = readout

    def source_attention(self) -> RecurrentAttention:
        """See AttentionalRNN."""
        return self.attention_layer.attention

    def init_cache(self, states: tuple[CellState, ...]) -> RNNCache:
        """See AttentionalRNN."""
        return RNNCache(states)

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the reference prefix; D is the readout's width."""
        memory, states = self.encode(source)
        x = self.tgt_embedding(target.ids)
        first = self.call_layer(self.attention_layer, x, target.real, memory, states[0])
        h = self.dropout(first.h) if len(self.upper_layers) else first.h
        h, _ = self.upper_layers(h, target.real, states[1:])
        return self._readout(h, x, first.contexts)

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel."""
        memory, cache = state.memory, state.cache
        if not isinstance(cache, RNNCache) or not isinstance(memory, Annotations):
            raise ValueError(f"state of another model: {type(cache).__name__}, {type(memory).__name__}")
        x = self.tgt_embedding(token)
        first = self.attention_layer.step(x, memory, cache.layers[0])
        h = self.dropout(first.h) if len(self.upper_layers) else first.h
        h, layers = self.upper_layers.step(h, cache.layers[1:])
        next_state = replace(state, cache=RNNCache((first.state, *layers)))
        return Step(self._readout(h, x, first.context), next_state, first.weights.unsqueeze(1))

    def _readout(self, h: Tensor, x: Tensor, context: Tensor) -> Tensor:
        """t_i from s_i, E y_{i-1} and c_i: [..., D]. The paper, eq. 4 (its appendix writes s_{i-1} for s_i)."""
        return self.dropout(self.readout(concat_features(h, x, context)))
