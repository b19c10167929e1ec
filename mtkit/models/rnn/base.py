"""What recurrent models with attention share: an encoder, and states that the decoder begins with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from mtkit.corpus.order.batch import Source
from mtkit.layers.cache.state import Rows
from mtkit.layers.projections import linear
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.cells import Cell, CellState
from mtkit.layers.recurrent.dropout import FreshDropout
from mtkit.layers.recurrent.stack import RecurrentEncoder
from mtkit.layers.recurrent_embedding import RecurrentEmbedding, Tables
from mtkit.models.interface import State, TranslationModel


@dataclass(frozen=True)
class DecoderCache(Rows):
    """The state of each decoder layer, from the lowest."""

    layers: tuple[CellState, ...]


class Bridge(nn.Module):
    """A decoder layer's first state from the encoder's last: h = tanh(W s), c = W' s.

    Bahdanau et al. 2015, appendix A.2.2, use the backward direction's state alone; here s holds all that there are.
    """

    def __init__(self, d_memory: int, cell: Cell) -> None:
        super().__init__()
        self.h = linear(d_memory, cell.d_state)
        self.c = linear(d_memory, cell.d_state) if cell.has_content else None

    def forward(self, end: Tensor) -> CellState:
        """[B, M] -> a state of B rows, in the type of `end`."""
        h = self.h(end).to(end.dtype).tanh()
        return CellState(h) if self.c is None else CellState(h, self.c(end).to(end.dtype))


class AttentionModel(TranslationModel):
    """A recurrent encoder, and a decoder that attends to its states.

    Args:
        embeddings: of both sides, and the projection to the vocabulary.
        encoder: what is attended to.
        bridges: one for each decoder layer, from the lowest.
        dropout: of embeddings, and of what is projected.
    """

    def __init__(
        self, embeddings: Tables, encoder: RecurrentEncoder, bridges: Sequence[Bridge], dropout: FreshDropout
    ) -> None:
        super().__init__()
        self.src_embedding = RecurrentEmbedding(embeddings.src, dropout)
        self.tgt_embedding = RecurrentEmbedding(embeddings.tgt, dropout)
        self.encoder = encoder
        self.bridges = nn.ModuleList(bridges)
        self.dropout = dropout
        self.output = embeddings.output

    @abstractmethod
    def attends_by(self) -> RecurrentAttention:
        """The attention of the decoder."""

    @abstractmethod
    def before(self, states: tuple[CellState, ...]) -> Rows:
        """The cache of a decoder whose layers begin with these states."""

    def encode(self, source: Source) -> tuple[Annotations, tuple[CellState, ...]]:
        """What the decoder attends to, and where each of its layers begins."""
        values, end = self.encoder(self.src_embedding(source.ids), source.real)
        memory = self.attends_by().annotate(values, source.real)
        return memory, tuple(bridge(end) for bridge in self.bridges)

    def start(self, source: Source, columns: Tensor | None = None) -> State:
        """Encode B sentences; nothing is decoded yet."""
        memory, states = self.encode(source)
        rows, logits = source.ids.size(0), self.projection(columns)
        return State(memory, self.before(states), num_sentences=rows, num_rows=rows, logits=logits)
