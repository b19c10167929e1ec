"""Configurations of recurrent layers, and the unions of kinds that a recipe can name."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config, construct, load_class
from mtkit.layers.config import NoNormConfig, TokenNormConfig

if TYPE_CHECKING:
    from mtkit.layers.dropout import PerStepDropout
    from mtkit.layers.recurrent.attention import RecurrentAttention
    from mtkit.layers.recurrent.attentional import Readout
    from mtkit.layers.recurrent.cells import Cell
    from mtkit.layers.recurrent.stack import Connection


class CellConfigBase:
    """Configuration of a recurrent cell."""

    builds: ClassVar[str]

    def build(self, d_in: int, d_state: int, state_dropout: float) -> Cell:
        """Build the cell for inputs [rows, d_in] and states [rows, d_state]."""
        return construct(self, d_in, d_state, state_dropout)


@config
class LSTMCellConfig(CellConfigBase):
    """Long short-term memory (see LSTMCell)."""

    kind: Literal["lstm"] = "lstm"
    builds: ClassVar[str] = "layers.recurrent.cells:LSTMCell"


@config
class GRUCellConfig(CellConfigBase):
    """Gated recurrent unit (see GRUCell and ResetBeforeGRUCell)."""

    kind: Literal["gru"] = "gru"
    # Whether the reset gate is applied after the recurrent product, as in torch, or before it, as in the paper.
    # Default: after, which is faster.
    reset_gate: Literal["after", "before"] = "after"

    @property
    def builds(self) -> str:  # type: ignore[override]
        """Path of the cell's class."""
        return "layers.recurrent.cells:" + ("GRUCell" if self.reset_gate == "after" else "ResetBeforeGRUCell")


@config
class LayerNormLSTMCellConfig(CellConfigBase):
    """Long short-term memory with layer norm (see LayerNormLSTMCell)."""

    kind: Literal["layer_norm_lstm"] = "layer_norm_lstm"
    builds: ClassVar[str] = "layers.recurrent.cells:LayerNormLSTMCell"


@config
class LayerNormGRUCellConfig(CellConfigBase):
    """Gated recurrent unit with layer norm (see LayerNormGRUCell)."""

    kind: Literal["layer_norm_gru"] = "layer_norm_gru"
    builds: ClassVar[str] = "layers.recurrent.cells:LayerNormGRUCell"


@config
class TanhCellConfig(CellConfigBase):
    """Plain recurrent unit without gates, for comparison (see TanhCell)."""

    kind: Literal["tanh"] = "tanh"
    builds: ClassVar[str] = "layers.recurrent.cells:TanhCell"


CellConfig = LSTMCellConfig | GRUCellConfig | LayerNormLSTMCellConfig | LayerNormGRUCellConfig | TanhCellConfig


class RecurrentAttentionConfigBase:
    """Capabilities of attention of a recurrent decoder; a kind overrides those that differ."""

    builds: ClassVar[str]
    has_bias: ClassVar[bool] = True  # of the projected annotations
    needs_equal_widths: ClassVar[bool] = False  # multiplies decoder states with annotations

    def build(self, d_query: int, d_memory: int, d_attention: int) -> RecurrentAttention:
        """Build the attention of states [rows, d_query] over annotations [B, S, d_memory].

        Raises:
            ValueError: the kind needs equal widths, and they differ.
        """
        if self.needs_equal_widths and d_query != d_memory:
            raise ValueError(f"dot attention of states of width {d_query} over annotations of width {d_memory}")
        return construct(self, d_query, d_memory, d_attention)


@config
class AdditiveConfig(RecurrentAttentionConfigBase):
    """Additive score with a bias, as in Bahdanau et al. 2015 (see AdditiveAttention)."""

    kind: Literal["additive"] = "additive"
    builds: ClassVar[str] = "layers.recurrent.attention:AdditiveAttention"


@config
class ConcatConfig(RecurrentAttentionConfigBase):
    """Additive score without a bias, as in Luong et al. 2015 (see AdditiveAttention)."""

    has_bias: ClassVar[bool] = False

    kind: Literal["concat"] = "concat"
    builds: ClassVar[str] = "layers.recurrent.attention:AdditiveAttention"


@config
class GeneralConfig(RecurrentAttentionConfigBase):
    """Bilinear score (see GeneralAttention)."""

    kind: Literal["general"] = "general"
    builds: ClassVar[str] = "layers.recurrent.attention:GeneralAttention"


@config
class DotConfig(RecurrentAttentionConfigBase):
    """Dot-product score (see DotAttention)."""

    kind: Literal["dot"] = "dot"
    builds: ClassVar[str] = "layers.recurrent.attention:DotAttention"

    needs_equal_widths: ClassVar[bool] = True


ScoreConfig = AdditiveConfig | ConcatConfig | GeneralConfig | DotConfig


@config
class LocalConfig(RecurrentAttentionConfigBase):
    """A window of the source around a predicted position (see LocalAttention)."""

    kind: Literal["local"] = "local"
    builds: ClassVar[str] = "layers.recurrent.attention:LocalAttention"
    # Score of a state and an annotation. Default: general, the best in the paper.
    score: ScoreConfig = field(default_factory=GeneralConfig)
    # Number of source positions to each side of the predicted one. Default: the paper's.
    window: Annotated[int, Limits(gt=0)] = 10


RecurrentAttentionConfig = AdditiveConfig | ConcatConfig | GeneralConfig | DotConfig | LocalConfig


class RecurrentDropoutConfigBase:
    """Configuration of the dropout of recurrent models."""

    builds: ClassVar[str]

    def build(self, p: float) -> PerStepDropout:
        """Build dropout with probability p."""
        dropout: PerStepDropout = load_class(self.builds)(p)
        return dropout


@config
class PerStepDropoutConfig(RecurrentDropoutConfigBase):
    """A mask per step; recurrent states are not dropped (see PerStepDropout)."""

    kind: Literal["per_step"] = "per_step"
    builds: ClassVar[str] = "layers.dropout:PerStepDropout"
    state: ClassVar[float] = 0.0  # dropout of h at the recurrent product


@config
class VariationalDropoutConfig(RecurrentDropoutConfigBase):
    """One mask per sentence, also of recurrent states (see VariationalDropout)."""

    kind: Literal["variational"] = "variational"
    builds: ClassVar[str] = "layers.dropout:VariationalDropout"
    # Dropout probability of the state h where it enters the recurrent product. Default: below that of the input, since
    # the state passes it at every step.
    state: Annotated[float, Limits(ge=0, lt=1)] = 0.2


RecurrentDropoutConfig = PerStepDropoutConfig | VariationalDropoutConfig


class ReadoutConfigBase:
    """Configuration of a readout."""

    builds: ClassVar[str]

    def build(self, d_in: int, d_out: int) -> Readout:
        """Build the readout [..., d_in] -> [..., d_out]."""
        return construct(self, d_in, d_out)


@config
class MaxoutReadoutConfig(ReadoutConfigBase):
    """Maxout readout (see MaxoutReadout)."""

    kind: Literal["maxout"] = "maxout"
    builds: ClassVar[str] = "layers.recurrent.attentional:MaxoutReadout"
    # Number of linear pieces of which the largest is taken. Default: the paper's.
    num_pieces: Annotated[int, Limits(gt=1)] = 2


@config
class TanhReadoutConfig(ReadoutConfigBase):
    """Tanh readout (see TanhReadout)."""

    kind: Literal["tanh"] = "tanh"
    builds: ClassVar[str] = "layers.recurrent.attentional:TanhReadout"


ReadoutConfig = MaxoutReadoutConfig | TanhReadoutConfig


class ConnectionConfigBase:
    """Configuration of the connections between layers."""

    has_residuals: ClassVar[bool]
    norm: TokenNormConfig | None

    def build(self, width: int, *, residual: bool) -> Connection:
        """Build the connection that follows a layer of this width; `residual`: a sum is possible there."""
        from mtkit.layers.recurrent.stack import Connection, ResidualConnection

        kind = ResidualConnection if residual and self.has_residuals else Connection
        return kind((self.norm or NoNormConfig()).build(width))


@config
class PlainConnectionConfig(ConnectionConfigBase):
    """No residual connections (see Connection)."""

    kind: Literal["plain"] = "plain"
    has_residuals: ClassVar[bool] = False
    # Norm of every layer's output. Default: null has none, as in the papers.
    norm: TokenNormConfig | None = None


@config
class ResidualConnectionConfig(ConnectionConfigBase):
    """Residual connections around layers above the first whose input and output widths agree (ResidualConnection)."""

    kind: Literal["residual"] = "residual"
    has_residuals: ClassVar[bool] = True
    # Norm of the sum of a layer's input and output. Default: null has none, as in GNMT.
    norm: TokenNormConfig | None = None


ConnectionConfig = PlainConnectionConfig | ResidualConnectionConfig
