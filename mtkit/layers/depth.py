"""How deep a model is, and in which of its stacks a part stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Depth:
    """The layers of both stacks, counted as often as they are applied; a part may begin otherwise in a deep one.

    Attributes:
        side: the stack that is meant; "alone" is a decoder without an encoder.
        encoder: N of the papers; 0 for a decoder alone.
        decoder: M of the papers.
    """

    side: Literal["encoder", "decoder", "alone"]
    encoder: int
    decoder: int
