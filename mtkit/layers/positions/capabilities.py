"""Capabilities of position encodings."""

from __future__ import annotations

from typing import ClassVar

from mtkit.config import config


@config
class PositionConfigBase:
    """Capabilities of a position encoding, which checks of recipes ask for; a kind overrides those that differ."""

    encodes_order: ClassVar[bool] = True  # tells tokens apart by position
    acts_in_attention: ClassVar[bool] = False  # on queries, keys or scores, not (only) on the embeddings
    needs_scores: ClassVar[bool] = False  # adds a bias to the score of each pair of tokens
    is_recommended: ClassVar[bool] = True  # messages suggest it as a remedy; false of kinds for comparison
    needs_whole_sentence: ClassVar[bool] = False  # uses the sentence's length, unknown while a decoder writes it
    needs_even_head_dim: ClassVar[bool] = False  # rotates pairs of numbers

    @property
    def length_limit(self) -> int | None:
        """Maximum sentence length in tokens, end of sentence included; None if unlimited."""
        return None
