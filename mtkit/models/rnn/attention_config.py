"""What a recipe says of a recurrent model with attention, and how it becomes one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from mtkit.layers.projections import Layers, Width
from mtkit.layers.recurrent import CellConfig, RecurrentAttentionConfig
from mtkit.layers.recurrent.additive_attention import AdditiveConfig
from mtkit.layers.recurrent.attention import RecurrentAttention
from mtkit.layers.recurrent.bahdanau import AttendingLayer
from mtkit.layers.recurrent.cells import Cell, GRUCellConfig
from mtkit.layers.recurrent.input_feeding import FeedingLayers
from mtkit.layers.recurrent.local_attention import LocalConfig
from mtkit.layers.recurrent.readout import MaxoutConfig, Readout, ReadoutConfig
from mtkit.layers.recurrent.stack import BidirectionalLayer, RecurrentEncoder, RecurrentLayer
from mtkit.layers.recurrent_embedding import Tables, tables
from mtkit.models.rnn.bahdanau import AttentionRNN
from mtkit.models.rnn.base import AttentionModel, Bridge
from mtkit.models.rnn.config import RecurrentConfig
from mtkit.models.rnn.luong import InputFeedingRNN, LuongRNN


@dataclass(frozen=True, kw_only=True)
class AttentionRNNConfig(RecurrentConfig):
    """Recurrent encoder and decoder with attention (see AttentionRNN, LuongRNN, InputFeedingRNN)."""

    kind: Literal["attention_rnn"] = "attention_rnn"
    d_model: Width = 512  # each direction of the encoder, and the decoder; Bahdanau: 1000
    d_embedding: Width = 256  # also the width of what is projected to the vocabulary; there: 620
    d_attention: Width = 256  # of additive and concat; there: 1000; most of the memory traffic
    encoder_layers: Layers = 1
    bidirectional_layers: Annotated[int, Field(ge=0)] | None = None  # the lowest so many; all unless set; Luong: 0
    decoder_layers: Layers = 1
    encoder_cell: CellConfig = field(default_factory=GRUCellConfig)
    decoder_cell: CellConfig = field(default_factory=GRUCellConfig)
    # bahdanau attends before each step; luong after it; input_feeding too, and the next step is told what came of it
    decoder: Literal["bahdanau", "luong", "input_feeding"] = "bahdanau"
    attention: RecurrentAttentionConfig = field(default_factory=AdditiveConfig)
    readout: ReadoutConfig = field(default_factory=MaxoutConfig)  # Luong: tanh
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.4  # embeddings, between layers, readout

    def __post_init__(self) -> None:
        if self.bidirectional_layers is not None and self.bidirectional_layers > self.encoder_layers:
            raise ValueError(
                f"bidirectional_layers: {self.bidirectional_layers} of {self.encoder_layers} encoder layers; leave it "
                "out for all, or raise encoder_layers"
            )
        key, score = "attention", self.attention
        if isinstance(score, LocalConfig):
            key, score = "attention.score", score.score
        if score.kind == "dot" and self._d_memory != self.d_model:
            raise ValueError(
                f"{key}.kind: dot multiplies states of width {self.d_model} with annotations of width "
                f"{self._d_memory}, the two directions of the encoder's top layer; take general, or lower "
                "bidirectional_layers"
            )
        if self.joint.kind == "residual" and not self._goes_around():
            raise ValueError(
                "joint.kind: residual connections go around layers above the first that are as wide as what they are "
                "given, and there is none; raise encoder_layers or decoder_layers, or take plain"
            )

    @property
    def _directions(self) -> list[int]:
        """Of each encoder layer, from the lowest."""
        both = self.encoder_layers if self.bidirectional_layers is None else self.bidirectional_layers
        return [2] * both + [1] * (self.encoder_layers - both)

    @property
    def _d_memory(self) -> int:
        return self._directions[-1] * self.d_model

    def _goes_around(self) -> bool:
        directions = self._directions
        return self.decoder_layers > 1 or any(below == above for below, above in pairwise(directions))

    def build(self, src_vocab: int, tgt_vocab: int) -> AttentionModel:
        """The model for vocabularies of these sizes.

        Raises:
            ValueError: tied_embeddings is "all" and the vocabularies differ.
        """
        widths = [self.d_embedding] + [self.d_model] * (self.decoder_layers - 1)
        cells = [self.build_cell(self.decoder_cell, d_in) for d_in in widths]
        attention = self.attention.build(self.d_model, self._d_memory, self.d_attention)
        embeddings = tables(src_vocab, tgt_vocab, dim=self.d_embedding, tied=self.tied_embeddings)
        build = {"bahdanau": self._bahdanau, "luong": self._luong, "input_feeding": self._input_feeding}[self.decoder]
        return build(embeddings, self._encoder(), cells, attention)

    def _bahdanau(
        self, embeddings: Tables, encoder: RecurrentEncoder, cells: Sequence[Cell], attention: RecurrentAttention
    ) -> AttentionRNN:
        (joint,) = self.build_joints([self.d_embedding], [self.d_model])
        return AttentionRNN(
            embeddings,
            encoder,
            attending=AttendingLayer(cells[0], attention, joint, d_memory=self._d_memory),
            upper=self.build_stack(cells[1:], above_first=True),
            bridges=self._bridges(cells),
            readout=self.readout.build(self.d_model + self.d_embedding + self._d_memory, self.d_embedding),
            dropout=self.build_dropout(),
        )

    def _luong(
        self, embeddings: Tables, encoder: RecurrentEncoder, cells: Sequence[Cell], attention: RecurrentAttention
    ) -> LuongRNN:
        return LuongRNN(
            embeddings,
            encoder,
            decoder=self.build_stack(cells),
            attention=attention,
            bridges=self._bridges(cells),
            readout=self._attentional(),
            dropout=self.build_dropout(),
        )

    def _input_feeding(
        self, embeddings: Tables, encoder: RecurrentEncoder, cells: Sequence[Cell], attention: RecurrentAttention
    ) -> InputFeedingRNN:
        d_gates = cells[0].inputs.out_features
        stack, readout = self.build_stack(cells), self._attentional()
        return InputFeedingRNN(
            embeddings,
            encoder,
            decoder=FeedingLayers(stack, attention, readout, d_fed=self.d_embedding, d_gates=d_gates),
            bridges=self._bridges(cells),
            dropout=self.build_dropout(),
        )

    def _attentional(self) -> Readout:
        """From state and context to h~."""
        return self.readout.build(self.d_model + self._d_memory, self.d_embedding)

    def _bridges(self, cells: Sequence[Cell]) -> list[Bridge]:
        return [Bridge(self._d_memory, cell) for cell in cells]

    def _encoder(self) -> RecurrentEncoder:
        d_out = [self.d_model * directions for directions in self._directions]
        d_in = [self.d_embedding, *d_out[:-1]]
        layers = [self._encoder_layer(*each) for each in zip(d_in, self._directions, strict=True)]
        return RecurrentEncoder(layers, self.build_joints(d_in, d_out), self.build_dropout())

    def _encoder_layer(self, d_in: int, directions: int) -> BidirectionalLayer | RecurrentLayer:
        cells = [self.build_cell(self.encoder_cell, d_in) for _ in range(directions)]
        return RecurrentLayer(cells[0]) if directions == 1 else BidirectionalLayer(*cells)
