"""Greedy search under another name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from mtkit.search.run import Search, SearchParts
from mtkit.search.single_path import SinglePathSearch


@dataclass(frozen=True, kw_only=True)
class PlainGreedy:
    """The most probable token at every step."""

    kind: Literal["plain_greedy"] = "plain_greedy"

    num_hypotheses_key: ClassVar[str] = "beam_size"
    seed: ClassVar[None] = None
    ignored_keys: ClassVar[frozenset[str]] = frozenset()

    def check(self, beam_size: int) -> None:
        """See SearchMethod."""

    def num_hypotheses(self, beam_size: int) -> int:
        """See SearchMethod."""
        return 1

    def build(self, parts: SearchParts) -> Search:
        """See SearchMethod."""
        return SinglePathSearch(parts)
