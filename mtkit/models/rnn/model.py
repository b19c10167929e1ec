"""Recurrent models: without attention, where the source becomes one vector (Sutskever et al. 2014,
https://arxiv.org/abs/1409.3215), with attention before each decoder step (Bahdanau et al. 2015,
https://arxiv.org/abs/1409.0473), or after it (Luong et al. 2015, https://arxiv.org/abs/1508.04025).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.cache import BatchedState, EmptyState
from mtkit.layers.dropout import PerStepDropout
from mtkit.layers.layer_call import LayerStack
from mtkit.layers.projections import linear
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.attentional import BahdanauLayer, InputFeedingStack, InputFeedingState, Readout
from mtkit.layers.recurrent.cells import Cell, CellState
from mtkit.layers.recurrent.deferred_weight_grad import concat_features
from mtkit.layers.recurrent.stack import RecurrentEncoder, RecurrentStack
from mtkit.models.embeddings import ScaledEmbedding, TiedEmbeddings
from mtkit.models.interface import State, Step, TranslationModel


@dataclass(frozen=True)
class RNNCache(BatchedState):
    """Decoder cache of a recurrent model: the state of each layer, from the lowest."""

    layers: tuple[CellState, ...]


class Bridge(nn.Module):
    """Initial state of a decoder layer from the encoder's final state s: h = tanh(W s), c = W' s.

    Bahdanau et al. 2015, appendix A.2.2, where s is the state of the backward direction after the first token.

    Args:
        d_end: width of s, the last `d_end` numbers of the encoder's final states; the backward direction is the last.
        cell: of the decoder layer.
    """

    def __init__(self, d_end: int, cell: Cell) -> None:
        super().__init__()
        self.d_end = d_end
        self.h = linear(d_end, cell.d_state)
        self.c = linear(d_end, cell.d_state) if cell.has_cell_state else None

    def forward(self, end: Tensor) -> CellState:
        """Final states of all directions [B, M] -> a state of B rows, in the type of `end`."""
        end = end[:, -self.d_end :]
        h = self.h(end).to(end.dtype).tanh()
        return CellState(h) if self.c is None else CellState(h, self.c(end).to(end.dtype))


class AttentionalRNN(TranslationModel):
    """Base of recurrent models with attention: a recurrent encoder whose states the decoder attends to.

    Args:
        embeddings: of both sides, and the output projection.
        encoder: its outputs are the memory.
        bridges: initial states of the decoder layers, one bridge per layer, from the lowest.
        dropout: of embeddings and of the output projection's input.
    """

    def __init__(
        self, embeddings: TiedEmbeddings, encoder: RecurrentEncoder, bridges: Sequence[Bridge], dropout: PerStepDropout
    ) -> None:
        super().__init__()
        self.src_embedding = ScaledEmbedding(embeddings.src, dropout)
        self.tgt_embedding = ScaledEmbedding(embeddings.tgt, dropout)
        self.encoder = encoder
        self.bridges = nn.ModuleList(bridges)
        self.dropout = dropout
        self.output = embeddings.output

    @abstractmethod
    def source_attention(self) -> RecurrentAttention:
        """Return the decoder's attention over the source."""

    def init_cache(self, states: tuple[CellState, ...]) -> BatchedState:
        """Return the cache of a decoder whose layers start from these states."""
        return RNNCache(states)

    def encode(self, source: Source) -> tuple[Annotations, tuple[CellState, ...]]:
        """Encode the source into the memory and the initial state of each decoder layer."""
        values, end = self.encoder(self.src_embedding(source.ids), source.real)
        memory = self.source_attention().project_memory(values, source.real)
        return memory, tuple(bridge(end) for bridge in self.bridges)

    def start(self, source: Source) -> State:
        """See TranslationModel."""
        memory, states = self.encode(source)
        rows, logits = source.ids.size(0), self.output
        return State(memory, self.init_cache(states), num_sentences=rows, num_rows=rows, output_projection=logits)


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

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the reference prefix; D is the readout's width."""
        memory, states = self.encode(source)
        x = self.tgt_embedding(target.ids)
        h, contexts = self.call_layer(self.attention_layer, x, target.real, memory, states[0])
        h = self.dropout(h) if len(self.upper_layers) else h
        h, _ = self.upper_layers(h, target.real, states[1:])
        # t_i from s_i, E y_{i-1} and c_i: the paper, eq. 4 (its appendix writes s_{i-1} for s_i)
        return self.dropout(self.readout(concat_features(h, x, contexts)))

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel."""
        cache, memory = state.parts(RNNCache, Annotations)
        x = self.tgt_embedding(token)
        h, context, weights, lowest = self.attention_layer.step(x, memory, cache.layers[0])
        h = self.dropout(h) if len(self.upper_layers) else h
        h, layers = self.upper_layers.step(h, cache.layers[1:])
        next_state = replace(state, cache=RNNCache((lowest, *layers)))
        hidden = self.dropout(self.readout(concat_features(h, x, context)))  # [rows, D]
        return Step(hidden, next_state, weights.unsqueeze(1))


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
        self.attention = attention
        self.readout = readout

    def source_attention(self) -> RecurrentAttention:
        """See AttentionalRNN."""
        return self.attention

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the reference prefix; D is the readout's width."""
        memory, states = self.encode(source)
        h, _ = self.decoder(self.tgt_embedding(target.ids), target.real, states)
        contexts, _ = self.attention.make_attend_fn(memory)(h.flatten(0, 1))  # [B·T, M]
        return self.dropout(self.readout(concat_features(h, contexts.view(*h.shape[:2], contexts.size(1)))))

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel."""
        cache, memory = state.parts(RNNCache, Annotations)
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
        cache, memory = state.parts(InputFeedingState, Annotations)
        next_cache, weights = self.decoder.make_step_fn(memory)(self.tgt_embedding(token), cache)
        return Step(self.dropout(next_cache.attentional), replace(state, cache=next_cache), weights.unsqueeze(1))


class Seq2SeqRNN(TranslationModel):
    """Recurrent encoder and decoder; each decoder layer starts from the final state of the same encoder layer.

    Args:
        embeddings: of both sides, and the output projection.
        encoder: as many layers as `decoder`.
        decoder: see `encoder`.
        readout: from the decoder's width to the embedding width.
        dropout: of embeddings and of the readout's input.
        reverse_source: encode the source from its last token to its first.
    """

    def __init__(
        self,
        embeddings: TiedEmbeddings,
        encoder: RecurrentStack,
        decoder: RecurrentStack,
        *,
        readout: nn.Module,
        dropout: PerStepDropout,
        reverse_source: bool,
    ) -> None:
        super().__init__()
        self.src_embedding = ScaledEmbedding(embeddings.src, dropout)
        self.tgt_embedding = ScaledEmbedding(embeddings.tgt, dropout)
        self.encoder = encoder
        self.decoder = decoder
        self.dropout = dropout
        self.readout = readout
        self.output = embeddings.output
        self.reverse_source = reverse_source

    def encode(self, source: Source) -> tuple[CellState, ...]:
        """Encode the source into the final state of each encoder layer."""
        ids, real = source.ids, source.real
        if self.reverse_source:
            ids, real = ids.flip(1), real.flip(1)  # leading padding leaves the state at zero
        _, ends = self.encoder(self.src_embedding(ids), real)
        return ends  # type: ignore[no-any-return]

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the reference prefix; D is the readout's width."""
        x, _ = self.decoder(self.tgt_embedding(target.ids), target.real, self.encode(source))
        return self.readout(self.dropout(x))  # type: ignore[no-any-return]

    def start(self, source: Source) -> State:
        """See TranslationModel."""
        rows = source.ids.size(0)
        cache = RNNCache(self.encode(source))  # has all that is known of the source, since there is no attention
        return State(EmptyState(), cache, num_sentences=rows, num_rows=rows, output_projection=self.output)

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel; the attention of the result is None."""
        cache, _ = state.parts(RNNCache, EmptyState)
        x, layers = self.decoder.step(self.tgt_embedding(token), cache.layers)
        return Step(self.readout(self.dropout(x)), replace(state, cache=RNNCache(layers)), None)
