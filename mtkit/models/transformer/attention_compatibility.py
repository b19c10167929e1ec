"""Which kinds of attention, positions and heads go together; the rest is refused with the remedy."""

from __future__ import annotations

from dataclasses import dataclass

from mtkit.layers.attention import AttentionConfig
from mtkit.layers.attention.average import AverageAttentionConfig
from mtkit.layers.attention.linformer import LinformerConfig
from mtkit.layers.attention.longformer import LongformerConfig
from mtkit.layers.attention.performer import PerformerConfig
from mtkit.layers.attention.sliding_window import StridedAttentionConfig, WindowAttentionConfig
from mtkit.layers.attention.ssru import SSRUConfig
from mtkit.layers.heads import Heads
from mtkit.layers.positions import PositionConfig, ScoreBias
from mtkit.layers.positions.base import NoPositionConfig
from mtkit.layers.positions.rope import RoPEConfig


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a recipe chose for one stack, with the keys it chose it by."""

    attention_key: str
    attention: AttentionConfig
    positions_key: str
    positions: PositionConfig
    heads: Heads
    causal: bool  # a decoder's

    def check(self) -> None:
        """Refuse what cannot work.

        Raises:
            ValueError: "key: why, and the remedy".
        """
        self._one_way()
        self._constant_state()
        self._scores()
        self._order()
        self._pairs()

    def _one_way(self) -> None:
        if self.causal and isinstance(self.attention, LinformerConfig | LongformerConfig):
            raise ValueError(
                f"{self.attention_key}.kind: {self.attention.kind} looks at what comes later and works in an encoder "
                "only; use full, window, strided or performer"
            )

    def _constant_state(self) -> None:
        if not isinstance(self.attention, SSRUConfig | AverageAttentionConfig):
            return
        kind, positions = self.attention.kind, self.positions.kind
        if not self.causal:
            raise ValueError(
                f"{self.attention_key}.kind: {kind} sees only what came before and works in a decoder only; use full, "
                "window or another kind"
            )
        if isinstance(self.positions, ScoreBias | RoPEConfig):
            raise ValueError(
                f"{self.positions_key}.kind: {positions} acts inside of attention, of which {kind} has none; use "
                f"sinusoidal or learned, or set {self.attention_key} to full"
            )
        if isinstance(self.attention, AverageAttentionConfig) and isinstance(self.positions, NoPositionConfig):
            raise ValueError(
                f"{self.positions_key}.kind: with none, an average knows no order; use sinusoidal or learned, or set "
                f"{self.attention_key} to full"
            )

    def _scores(self) -> None:
        linear = isinstance(self.attention, LinformerConfig | PerformerConfig)
        if linear and isinstance(self.positions, ScoreBias):
            raise ValueError(
                f"{self.positions_key}.kind: {self.positions.kind} changes the score of each pair of tokens, and "
                f"{self.attention.kind} attention never computes these; use rope, sinusoidal or learned, or set "
                f"{self.attention_key} to full, window or strided"
            )

    def _order(self) -> None:
        local = isinstance(self.attention, WindowAttentionConfig | StridedAttentionConfig | LongformerConfig)
        if local and isinstance(self.positions, NoPositionConfig):
            raise ValueError(
                f"{self.positions_key}.kind: with none, {self.attention.kind} attention knows no order within its "
                f"window; use rope, alibi or another kind, or set {self.attention_key} to full"
            )

    def _pairs(self) -> None:
        if isinstance(self.positions, RoPEConfig) and self.heads.head_dim % 2:
            raise ValueError(
                f"{self.positions_key}.kind: rope turns pairs of numbers and the heads are {self.heads.head_dim} wide; "
                "change num_heads or set head_dim to an even number"
            )
