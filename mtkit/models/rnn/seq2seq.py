"""Sequence to sequence through one fixed vector (Sutskever et al. 2014, https://arxiv.org/abs/1409.3215)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.cache.state import Rows
from mtkit.layers.projections import Layers, Width, linear
from mtkit.layers.recurrent import CellConfig
from mtkit.layers.recurrent.cells import CellState, LSTMCellConfig
from mtkit.layers.recurrent.dropout import FreshDropout
from mtkit.layers.recurrent.stack import RecurrentStack
from mtkit.layers.recurrent_embedding import RecurrentEmbedding, Tables, tables
from mtkit.models.interface import State, Step, TranslationModel
from mtkit.models.rnn.config import RecurrentConfig


@dataclass(frozen=True)
class NoMemory(Rows):
    """The decoder never looks back at the source."""


@dataclass(frozen=True)
class StackCache(Rows):
    """The state of each decoder layer."""

    layers: tuple[CellState, ...]


class FixedVectorModel(TranslationModel):
    """A deep recurrent encoder whose states at the end are the decoder's states at the beginning, layer by layer."""

    def __init__(
        self,
        embeddings: Tables,
        encoder: RecurrentStack,
        decoder: RecurrentStack,
        *,
        readout: nn.Module,
        dropout: FreshDropout,
        reverse_source: bool,
    ) -> None:
        super().__init__()
        self.src_embedding = RecurrentEmbedding(embeddings.src, dropout)
        self.tgt_embedding = RecurrentEmbedding(embeddings.tgt, dropout)
        self.encoder = encoder
        self.decoder = decoder
        self.dropout = dropout
        self.readout = readout
        self.output = embeddings.output
        self.reverse_source = reverse_source

    def encode(self, source: Source) -> tuple[CellState, ...]:
        """The state of each layer after the whole source, which is read from its end if `reverse_source`."""
        ids, real = source.ids, source.real
        if self.reverse_source:
            ids, real = ids.flip(1), real.flip(1)  # padding that comes first leaves the state at zero
        _, ends = self.encoder(self.src_embedding(ids), real)
        return ends  # type: ignore[no-any-return]

    def hidden(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the true prefix."""
        x, _ = self.decoder(self.tgt_embedding(target.ids), target.real, self.encode(source))
        return self._read(x)

    def start(self, source: Source, columns: Tensor | None = None) -> State:
        """Encode B sentences; nothing is decoded yet."""
        rows = source.ids.size(0)
        cache = StackCache(self.encode(source))
        return State(NoMemory(), cache, num_sentences=rows, num_rows=rows, logits=self.projection(columns))

    def step(self, token: Tensor, state: State) -> Step:
        """Feed one token [rows] per hypothesis; there is no attention."""
        if not isinstance(state.cache, StackCache):
            raise ValueError(f"a state of another model: {type(state.cache).__name__}")
        x, layers = self.decoder.advance(self.tgt_embedding(token), state.cache.layers)
        return Step(self._read(x), replace(state, cache=StackCache(layers)), None)

    def _read(self, x: Tensor) -> Tensor:
        return self.readout(self.dropout(x))  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class LSTMConfig(RecurrentConfig):
    """Recurrent sequence to sequence without attention (see FixedVectorModel); defaults for Multi30k."""

    kind: Literal["lstm"] = "lstm"
    d_model: Width = 512  # the paper's 1000 overfits 29,000 pairs
    num_layers: Layers = 2  # of encoder and decoder, which hand over layer by layer; the paper: 4
    cell: CellConfig = field(default_factory=LSTMCellConfig)
    reverse_source: bool = True  # the paper, sec. 3.3: brings the first words of both sides together

    def __post_init__(self) -> None:
        if self.joint.kind == "residual" and self.num_layers == 1:
            raise ValueError(
                "joint.kind: residual connections go around layers above the first, and there is none; raise "
                "num_layers, or take plain"
            )

    def build(self, src_vocab: int, tgt_vocab: int) -> FixedVectorModel:
        """The model for vocabularies of these sizes.

        Raises:
            ValueError: tied_embeddings is "all" and the vocabularies differ.
        """
        same_width = self.d_model == self.d_embedding
        return FixedVectorModel(
            tables(src_vocab, tgt_vocab, dim=self.d_embedding, tied=self.tied_embeddings),
            self._stack(),
            self._stack(),
            readout=nn.Identity() if same_width else linear(self.d_model, self.d_embedding),
            dropout=self.build_dropout(),
            reverse_source=self.reverse_source,
        )

    def _stack(self) -> RecurrentStack:
        widths = [self.d_embedding] + [self.d_model] * (self.num_layers - 1)
        return self.build_stack([self.build_cell(self.cell, d_in) for d_in in widths])
