"""Every cell that a recurrent layer can be built with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from mtkit.layers.recurrent_cell import Cell, GRUCell, LSTMCell, ResetBeforeGRUCell
from mtkit.layers.recurrent_normed_cell import NormedGRUCell, NormedLSTMCell


@dataclass(frozen=True, kw_only=True)
class LSTMCellConfig:
    """Long short-term memory (see LSTMCell)."""

    kind: Literal["lstm"] = "lstm"

    def build(self, d_in: int, d_state: int, state_dropout: float) -> Cell:
        """The cell for inputs [rows, d_in] and states [rows, d_state]."""
        return LSTMCell(d_in, d_state, state_dropout)


@dataclass(frozen=True, kw_only=True)
class GRUCellConfig:
    """Gated recurrent unit (see GRUCell and ResetBeforeGRUCell)."""

    kind: Literal["gru"] = "gru"
    reset_gate: Literal["after", "before"] = "after"  # the recurrent product: torch's form, faster, or the paper's

    def build(self, d_in: int, d_state: int, state_dropout: float) -> Cell:
        """The cell for inputs [rows, d_in] and states [rows, d_state]."""
        return (GRUCell if self.reset_gate == "after" else ResetBeforeGRUCell)(d_in, d_state, state_dropout)


@dataclass(frozen=True, kw_only=True)
class NormedLSTMCellConfig:
    """Long short-term memory with layer norms inside (see NormedLSTMCell)."""

    kind: Literal["normed_lstm"] = "normed_lstm"

    def build(self, d_in: int, d_state: int, state_dropout: float) -> Cell:
        """The cell for inputs [rows, d_in] and states [rows, d_state]."""
        return NormedLSTMCell(d_in, d_state, state_dropout)


@dataclass(frozen=True, kw_only=True)
class NormedGRUCellConfig:
    """Gated recurrent unit with layer norms inside (see NormedGRUCell)."""

    kind: Literal["normed_gru"] = "normed_gru"

    def build(self, d_in: int, d_state: int, state_dropout: float) -> Cell:
        """The cell for inputs [rows, d_in] and states [rows, d_state]."""
        return NormedGRUCell(d_in, d_state, state_dropout)


CellConfig = Annotated[
    LSTMCellConfig | GRUCellConfig | NormedLSTMCellConfig | NormedGRUCellConfig, Field(discriminator="kind")
]
