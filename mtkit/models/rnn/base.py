"""Encoder, bridge and decoder cache of recurrent models with attention."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from mtkit.corpus.order.batch import Source
from mtkit.layers.cache.state import BatchedState
from mtkit.layers.projections import linear
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.cells import Cell, CellState
from mtkit.layers.recurrent.dropout import PerStepDropout
from mtkit.layers.recurrent.stack import RecurrentEncoder
from mtkit.models.embeddings import ScaledEmbedding, TiedEmbeddings
from mtkit.models.interface import State, TranslationModel


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

    @abstractmethod
    def init_cache(self, states: tuple[CellState, ...]) -> BatchedState:
        """Return the cache of a decoder whose layers start from these states."""

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
