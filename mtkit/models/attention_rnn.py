"""Recurrent encoder and decoder with additive attention (Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.corpus.batch import Source, Target
from mtkit.layers.additive_attention import AdditiveAttention, Annotations
from mtkit.layers.dropout import Dropout
from mtkit.layers.linear import linear
from mtkit.layers.passage import Passing
from mtkit.layers.readout import MaxoutConfig, ReadoutConfig
from mtkit.layers.recurrent import (
    BidirectionalLayer,
    Cell,
    CellConfig,
    CellState,
    GRUCellConfig,
    RecurrentLayer,
    RecurrentStack,
    padded_steps,
)
from mtkit.layers.recurrent_embedding import RecurrentEmbedding, Tables, tables
from mtkit.layers.recurrent_gradient import compute_dtype, loop_product
from mtkit.layers.rows import Rows
from mtkit.models.model import TranslationModel
from mtkit.models.state import Advance, State


@dataclass(frozen=True)
class DecoderCache(Rows):
    """The state of each decoder layer; the first one is the layer that attends."""

    layers: tuple[CellState, ...]


class Attended(NamedTuple):
    """A decoder layer's outputs at T places, and what it had attended to."""

    h: Tensor  # [B, T, D]
    contexts: Tensor  # [B, T, M]
    state: CellState


class BidirectionalEncoder(Passing):
    """Bidirectional layers on top of each other, dropout between them."""

    def __init__(self, layers: Sequence[BidirectionalLayer], dropout: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dropout = dropout

    def forward(self, x: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, S, d_in] -> annotations [B, S, M], and the top layer's two states at their ends, together [B, M]."""
        ends: tuple[CellState, CellState] | None = None
        for i, layer in enumerate(self.layers):
            x, ends = self.passage(layer, self.dropout(x) if i else x, real)
        if ends is None:
            raise ValueError("an encoder needs at least one layer")
        return x, torch.cat([ends[0].h, ends[1].h], 1)


class Bridge(nn.Module):
    """The decoder layer's first state from the encoder's last: h = tanh(W s), c = W' s.

    The paper, appendix A.2.2, uses the backward direction's state alone; here s holds both directions'.
    """

    def __init__(self, d_memory: int, cell: Cell) -> None:
        super().__init__()
        self.h = linear(d_memory, cell.d_state)
        self.c = linear(d_memory, cell.d_state) if cell.has_content else None

    def forward(self, end: Tensor) -> CellState:
        """[B, M] -> a state of B rows, in the type of `end`."""
        h = self.h(end).to(end.dtype).tanh()
        return CellState(h) if self.c is None else CellState(h, self.c(end).to(end.dtype))


class AttendingLayer(nn.Module):
    """A recurrent layer that at each step attends to the source from its last state and takes the context as input.

    s_i = f(s_{i-1}, [E y_{i-1}; c_i]) with c_i = attend(s_{i-1}); appendix A.2.2.
    """

    def __init__(self, cell: Cell, attention: AdditiveAttention, *, d_memory: int) -> None:
        super().__init__()
        self.cell = cell
        self.attention = attention
        self.context = linear(d_memory, cell.inputs.out_features, bias=False)  # the context's part of the cell's inputs

    def forward(self, x: Tensor, real: Tensor, memory: Annotations, state: CellState) -> Attended:
        """Run over T places: x [B, T, d_in], real [B, T]; only what depends on the last state is done in the loop."""
        attend, to_gates, transition = self.attention.unroll(memory), loop_product(self.context), self.cell.unroll()
        outputs, contexts = [], []
        for projected, real_here in zip(self.cell.inputs(x).unbind(1), padded_steps(real, x.size(1)), strict=True):
            context, _ = attend(state.h)
            following = transition(to_gates(context, projected), state)
            state = following if real_here is None else following.where(real_here, state)
            outputs.append(state.h)
            contexts.append(context)
        return Attended(torch.stack(outputs, 1), torch.stack(contexts, 1), state)

    def advance(self, x: Tensor, memory: Annotations, state: CellState) -> tuple[CellState, Tensor, Tensor]:
        """One step: x [rows, d_in] -> the next state, the context [rows, M], and its weights [rows, S]."""
        context, weights = self.attention.unroll(memory)(state.h)
        gates = loop_product(self.context)(context, self.cell.inputs(x))
        return self.cell.unroll()(gates, state), context, weights


class AttentionRNN(TranslationModel, Passing):
    """Bidirectional encoder; a decoder whose first layer attends, with further layers above it."""

    def __init__(
        self,
        embeddings: Tables,
        encoder: BidirectionalEncoder,
        *,
        attending: AttendingLayer,
        upper: RecurrentStack,
        bridges: Sequence[Bridge],
        readout: nn.Module,
        dropout: float,
    ) -> None:
        super().__init__()
        self.src_embedding = RecurrentEmbedding(embeddings.src, dropout)
        self.tgt_embedding = RecurrentEmbedding(embeddings.tgt, dropout)
        self.encoder = encoder
        self.attending = attending
        self.upper = upper
        self.bridges = nn.ModuleList(bridges)
        self.readout = readout
        self.dropout = Dropout(dropout)
        self.output = embeddings.output

    def encode(self, source: Source) -> tuple[Annotations, tuple[CellState, ...]]:
        """What the decoder attends to, and where each of its layers begins."""
        values, end = self.encoder(self.src_embedding(source.ids), source.real)
        memory = self.attending.attention.annotate(values, source.real)
        return memory, tuple(bridge(end) for bridge in self.bridges)

    def hidden(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the true prefix; D is the readout's width."""
        memory, states = self.encode(source)
        x = self.tgt_embedding(target.ids)
        attended = self.passage(self.attending, x, target.real, memory, states[0])
        h, _ = self.upper(self.dropout(attended.h) if len(self.upper) else attended.h, target.real, states[1:])
        return self._read(h, x, attended.contexts)

    def start(self, source: Source, columns: Tensor | None = None) -> State:
        """Encode B sentences; nothing is decoded yet."""
        memory, states = self.encode(source)
        rows = source.ids.size(0)
        return State(memory, DecoderCache(states), num_sentences=rows, num_rows=rows, logits=self.projection(columns))

    def advance(self, token: Tensor, state: State) -> Advance:
        """Feed one token [rows] per hypothesis."""
        memory, cache = state.memory, state.cache
        if not isinstance(cache, DecoderCache) or not isinstance(memory, Annotations):
            raise ValueError(f"a state of another model: {type(cache).__name__}, {type(memory).__name__}")
        x = self.tgt_embedding(token)
        first, context, weights = self.attending.advance(x, memory, cache.layers[0])
        h, layers = self.upper.advance(self.dropout(first.h) if len(self.upper) else first.h, cache.layers[1:])
        following = replace(state, cache=DecoderCache((first, *layers)))
        return Advance(self._read(h, x, context), following, weights.unsqueeze(1))

    def _read(self, h: Tensor, x: Tensor, context: Tensor) -> Tensor:
        """The paper's t_i of s_i (eq. 4; its appendix writes s_{i-1}), E y_{i-1} and c_i: [..., D]."""
        dtype = compute_dtype(h)
        known = torch.cat([h.to(dtype), x.to(dtype), context.to(dtype)], -1)
        return self.dropout(self.readout(known))  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class AttentionRNNConfig:
    """Recurrent encoder and decoder with additive attention (see AttentionRNN); defaults for Multi30k."""

    kind: Literal["attention_rnn"] = "attention_rnn"
    d_model: Annotated[int, Field(gt=0)] = 512  # each direction of the encoder, and the decoder; the paper: 1000
    d_embedding: Annotated[int, Field(gt=0)] = 256  # also the width of what is projected to the vocabulary; paper: 620
    d_attention: Annotated[int, Field(gt=0)] = 256  # the paper: 1000; most of the decoder's memory traffic
    encoder_layers: Annotated[int, Field(gt=0)] = 1
    decoder_layers: Annotated[int, Field(gt=0)] = 1  # the first attends, the others stand on it
    encoder_cell: CellConfig = field(default_factory=GRUCellConfig)
    decoder_cell: CellConfig = field(default_factory=GRUCellConfig)
    readout: ReadoutConfig = field(default_factory=MaxoutConfig)
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.4  # embeddings, between layers, readout; not in time
    tied_embeddings: Literal["all", "target", "none"] = "target"  # all: source, target, softmax; target: the last two

    def build(self, src_vocab: int, tgt_vocab: int) -> AttentionRNN:
        """The model for vocabularies of these sizes.

        Raises:
            ValueError: tied_embeddings is "all" and the vocabularies differ.
        """
        d_memory = 2 * self.d_model
        first = self.decoder_cell.build(self.d_embedding, self.d_model)
        upper = [self.decoder_cell.build(self.d_model, self.d_model) for _ in range(self.decoder_layers - 1)]
        attention = AdditiveAttention(self.d_model, d_memory, self.d_attention)
        return AttentionRNN(
            tables(src_vocab, tgt_vocab, dim=self.d_embedding, tied=self.tied_embeddings),
            self._encoder(),
            attending=AttendingLayer(first, attention, d_memory=d_memory),
            upper=RecurrentStack([RecurrentLayer(cell) for cell in upper], Dropout(self.dropout)),
            bridges=[Bridge(d_memory, cell) for cell in (first, *upper)],
            readout=self.readout.build(self.d_model + self.d_embedding + d_memory, self.d_embedding),
            dropout=self.dropout,
        )

    def _encoder(self) -> BidirectionalEncoder:
        widths = [self.d_embedding] + [2 * self.d_model] * (self.encoder_layers - 1)
        layers = [
            BidirectionalLayer(self.encoder_cell.build(d_in, self.d_model), self.encoder_cell.build(d_in, self.d_model))
            for d_in in widths
        ]
        return BidirectionalEncoder(layers, Dropout(self.dropout))
