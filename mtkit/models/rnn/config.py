"""Recipe keys of the recurrent models, and how they are built: Seq2SeqRNN and the RNNs with attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config
from mtkit.layers.recurrent.config import (
    AdditiveConfig,
    CellConfig,
    ConnectionConfig,
    GRUCellConfig,
    LocalConfig,
    LSTMCellConfig,
    MaxoutReadoutConfig,
    PerStepDropoutConfig,
    PlainConnectionConfig,
    ReadoutConfig,
    RecurrentAttentionConfig,
    RecurrentDropoutConfig,
)
from mtkit.layers.sizes import NumLayers, PositiveWidth
from mtkit.models.capabilities import ModelConfigBase, TieMode

if TYPE_CHECKING:
    from mtkit.layers.dropout import PerStepDropout
    from mtkit.layers.recurrent.cells import Cell
    from mtkit.layers.recurrent.stack import Connection, RecurrentEncoder, RecurrentStack
    from mtkit.models.rnn.model import AttentionalRNN, Seq2SeqRNN


@config
class RNNConfig(ModelConfigBase):
    """Keys that all recurrent models have; defaults for Multi30k."""

    # Width of the recurrent states. Default: enough for 29,000 pairs.
    d_model: PositiveWidth = 512
    # Width of the embeddings and of the output projection's input. Default: half of the states, as the output
    # projection is the largest matrix.
    d_embed: PositiveWidth = 256
    # Residual connections and norms between layers. Default: plain, as in the papers; stacks are shallow.
    connection: ConnectionConfig = field(default_factory=PlainConnectionConfig)
    # Dropout probability of the embeddings, between layers and before the output projection. Default: 29,000 pairs need
    # strong regularisation.
    dropout: Annotated[float, Limits(ge=0, lt=1)] = 0.3
    # Kind of dropout: per_step draws a mask at each step, variational one per sentence, also for recurrent states.
    # Default: per_step, the simpler one.
    dropout_kind: RecurrentDropoutConfig = field(default_factory=PerStepDropoutConfig)
    # Matrices that are one: source, target and output (all); source and target (embeddings); target and output
    # (target); or none. Default: target,
    # which works with two vocabularies too.
    tied_embeddings: TieMode = "target"

    has_attention: ClassVar[bool] = True  # over the source
    has_data_dependent_steps: ClassVar[bool] = True  # one for each token

    def build_dropout(self) -> PerStepDropout:
        """Build the dropout of everything except recurrent states."""
        return self.dropout_kind.build(self.dropout)

    def build_cell(self, config: CellConfig, d_in: int) -> Cell:
        """Build a cell for inputs of width d_in."""
        return config.build(d_in, self.d_model, self.dropout_kind.state)

    def build_connections(
        self, d_in: Sequence[int], d_out: Sequence[int], *, above_first: bool = False
    ) -> list[Connection]:
        """Build the connections that follow consecutive layers with these input and output widths.

        A residual connection needs equal widths, and never goes around the first layer of a stack.

        Args:
            d_in: input width of each layer, from the lowest.
            d_out: output width of each layer.
            above_first: the lowest of these layers is not the first of its stack.
        """
        return [
            self.connection.build(out, residual=width == out and (number > 0 or above_first))
            for number, (width, out) in enumerate(zip(d_in, d_out, strict=True))
        ]

    def build_stack(self, cells: Sequence[Cell], *, above_first: bool = False) -> RecurrentStack:
        """Build a stack of one layer per cell; each layer's input is the output of the one below."""
        from mtkit.layers.recurrent.stack import RecurrentLayer, RecurrentStack

        widths = [cell.input_proj.in_features for cell in cells]
        connections = self.build_connections(widths, [self.d_model] * len(cells), above_first=above_first)
        return RecurrentStack([RecurrentLayer(cell) for cell in cells], connections, self.build_dropout())


@config
class Seq2SeqRNNConfig(RNNConfig):
    """Recurrent sequence to sequence without attention (see Seq2SeqRNN); defaults for Multi30k."""

    kind: Literal["rnn"] = "rnn"
    # Width of the recurrent states. Default: the paper's 1000 overfits 29,000 pairs.
    d_model: PositiveWidth = 512
    # Number of layers of the encoder and of the decoder. Default: the paper's 4 are for WMT.
    num_layers: NumLayers = 2
    # Recurrent cell of all layers. Default: lstm, the paper's.
    cell: CellConfig = field(default_factory=LSTMCellConfig)
    # Whether the encoder reads the source from its end. Default: true, the paper, sec. 3.3: it brings the first words
    # of both sides together.
    reverse_source: bool = True

    has_attention: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.connection.has_residuals and self.num_layers == 1:
            raise ValueError(
                "connection.kind: residual needs a layer above the first; raise num_layers, or set connection.kind: "
                "plain"
            )

    def build(self, src_vocab: int, tgt_vocab: int) -> Seq2SeqRNN:
        """Build the model for vocabularies of these sizes.

        Raises:
            ValueError: one table is for both sides, and their vocabularies differ.
        """
        from torch import nn

        from mtkit.layers.projections import linear
        from mtkit.models.embeddings import build_embeddings
        from mtkit.models.rnn.model import Seq2SeqRNN

        same_width = self.d_model == self.d_embed
        return Seq2SeqRNN(
            build_embeddings(src_vocab, tgt_vocab, self.d_embed, tied=self.tied_embeddings, bias=True),
            self._stack(),
            self._stack(),
            readout=nn.Identity() if same_width else linear(self.d_model, self.d_embed),
            dropout=self.build_dropout(),
            reverse_source=self.reverse_source,
        )

    def _stack(self) -> RecurrentStack:
        widths = [self.d_embed] + [self.d_model] * (self.num_layers - 1)
        return self.build_stack([self.build_cell(self.cell, d_in) for d_in in widths])


@config
class AttentionRNNConfig(RNNConfig):
    """Recurrent encoder and decoder with attention (see BahdanauRNN, LuongRNN, InputFeedingRNN)."""

    kind: Literal["attention_rnn"] = "attention_rnn"
    # Width of each direction of the encoder, and of the decoder. Default: Bahdanau's 1000 overfits 29,000 pairs.
    d_model: PositiveWidth = 512
    # Width of the embeddings and of the readout's output. Default: Bahdanau's 620 is for WMT.
    d_embed: PositiveWidth = 256
    # Width of the hidden layer of additive and concat attention. Default: Bahdanau has 1000; it is the width of the
    # largest tensor of a decoder step.
    d_attention: PositiveWidth = 256
    # Number of encoder layers. Default: as in Bahdanau et al.; Luong et al. have 4.
    encoder_layers: NumLayers = 1
    # Number of the lowest encoder layers that read in both directions. Default: null is all of them, as in Bahdanau et
    # al.; Luong et al. have 0.
    bidirectional_layers: Annotated[int, Limits(ge=0)] | None = None
    # Number of decoder layers. Default: as in Bahdanau et al.; Luong et al. have 4.
    decoder_layers: NumLayers = 1
    # Recurrent cell of the encoder. Default: gru, Bahdanau's; Luong's is lstm.
    encoder_cell: CellConfig = field(default_factory=GRUCellConfig)
    # Recurrent cell of the decoder. Default: gru, Bahdanau's; Luong's is lstm.
    decoder_cell: CellConfig = field(default_factory=GRUCellConfig)
    # Order of attention and step: bahdanau attends before each step, luong after it, and input_feeding is luong with h~
    # as input of the next step. Default: bahdanau, the model that introduced attention.
    decoder: Literal["bahdanau", "luong", "input_feeding"] = "bahdanau"
    # Score of a decoder state and an annotation. Default: additive, Bahdanau's; Luong's best is local.
    attention: RecurrentAttentionConfig = field(default_factory=AdditiveConfig)
    # Directions of the encoder whose final states start the decoder. Default: all, which know the whole source;
    # Bahdanau has backward.
    bridge_source: Literal["all", "backward"] = "all"
    # Layer between decoder state and output projection. Default: maxout, Bahdanau's; Luong's is tanh.
    readout: ReadoutConfig = field(default_factory=MaxoutReadoutConfig)
    # Dropout probability of the embeddings, between layers and in the readout. Default: 29,000 pairs need strong
    # regularisation.
    dropout: Annotated[float, Limits(ge=0, lt=1)] = 0.4

    def __post_init__(self) -> None:
        if self.bidirectional_layers is not None and self.bidirectional_layers > self.encoder_layers:
            raise ValueError(
                f"bidirectional_layers: {self.bidirectional_layers} exceeds encoder_layers {self.encoder_layers}; "
                "raise encoder_layers, or omit bidirectional_layers to make all layers bidirectional"
            )
        key, score = "attention", self.attention
        if isinstance(score, LocalConfig):
            key, score = "attention.score", score.score
        if score.needs_equal_widths and self._d_memory != self.d_model:
            raise ValueError(
                f"{key}.kind: {score.kind} multiplies states of width {self.d_model} with annotations of width "
                f"{self._d_memory}, the two directions of the encoder's top layer; set {key}.kind: general, or lower "
                "bidirectional_layers"
            )
        if self.bridge_source == "backward" and self._directions[-1] == 1:
            raise ValueError(
                "bridge_source: backward needs an encoder whose top layer has both directions; raise "
                "bidirectional_layers to encoder_layers, or set bridge_source: all"
            )
        has_equal_widths = self.decoder_layers > 1 or any(low == high for low, high in pairwise(self._directions))
        if self.connection.has_residuals and not has_equal_widths:
            raise ValueError(
                "connection.kind: residual needs a layer above the first whose input is as wide as its output; raise "
                "encoder_layers or decoder_layers, or set connection.kind: plain"
            )

    @property
    def _directions(self) -> list[int]:
        """Number of directions of each encoder layer, from the lowest."""
        both = self.encoder_layers if self.bidirectional_layers is None else self.bidirectional_layers
        return [2] * both + [1] * (self.encoder_layers - both)

    @property
    def _d_memory(self) -> int:
        return self._directions[-1] * self.d_model

    def build(self, src_vocab: int, tgt_vocab: int) -> AttentionalRNN:
        """Build the model for vocabularies of these sizes.

        Raises:
            ValueError: one table is for both sides, and their vocabularies differ.
        """
        from mtkit.layers.recurrent.attentional import BahdanauLayer, InputFeedingStack
        from mtkit.models.embeddings import build_embeddings
        from mtkit.models.rnn.model import BahdanauRNN, Bridge, InputFeedingRNN, LuongRNN

        d_end = self.d_model if self.bridge_source == "backward" else self._d_memory
        d_readout = self.d_model + self._d_memory  # state and context
        widths = [self.d_embed] + [self.d_model] * (self.decoder_layers - 1)
        cells = [self.build_cell(self.decoder_cell, d_in) for d_in in widths]
        attention = self.attention.build(self.d_model, self._d_memory, self.d_attention)
        embeddings = build_embeddings(src_vocab, tgt_vocab, self.d_embed, tied=self.tied_embeddings, bias=True)
        encoder = self._encoder()
        if self.decoder == "bahdanau":
            (connection,) = self.build_connections([self.d_embed], [self.d_model])
            return BahdanauRNN(
                embeddings,
                encoder,
                attention_layer=BahdanauLayer(cells[0], attention, connection, d_memory=self._d_memory),
                upper_layers=self.build_stack(cells[1:], above_first=True),
                bridges=[Bridge(d_end, cell) for cell in cells],
                readout=self.readout.build(d_readout + self.d_embed, self.d_embed),
                dropout=self.build_dropout(),
            )
        stack = self.build_stack(cells)
        if self.decoder == "luong":
            return LuongRNN(
                embeddings,
                encoder,
                decoder=stack,
                attention=attention,
                bridges=[Bridge(d_end, cell) for cell in cells],
                readout=self.readout.build(d_readout, self.d_embed),
                dropout=self.build_dropout(),
            )
        readout = self.readout.build(d_readout, self.d_embed)
        return InputFeedingRNN(
            embeddings,
            encoder,
            decoder=InputFeedingStack(stack, attention, readout, self.d_embed),
            bridges=[Bridge(d_end, cell) for cell in cells],
            dropout=self.build_dropout(),
        )

    def _encoder(self) -> RecurrentEncoder:
        from mtkit.layers.recurrent.stack import BidirectionalLayer, RecurrentEncoder, RecurrentLayer

        d_out = [self.d_model * directions for directions in self._directions]
        d_in = [self.d_embed, *d_out[:-1]]
        layers: list[BidirectionalLayer | RecurrentLayer] = []
        for width, directions in zip(d_in, self._directions, strict=True):
            cells = [self.build_cell(self.encoder_cell, width) for _ in range(directions)]
            layers.append(RecurrentLayer(cells[0]) if directions == 1 else BidirectionalLayer(*cells))
        return RecurrentEncoder(layers, self.build_connections(d_in, d_out), self.build_dropout())
