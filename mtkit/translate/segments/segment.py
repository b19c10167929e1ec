"""Segments: lines, or parts of long lines, that are translated as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mtkit.search.hypothesis import Hypothesis
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.alignment import Replacement
from mtkit.translate.constraints import TokenConstraints
from mtkit.translate.fidelity.removal import Removal


@dataclass
class Segment:
    """A line, or a part of a long line, that is translated as one."""

    line: int  # number of the line in the whole text, from 1
    number: int  # among all segments of all lines; the same in every batch and window
    leading_space: str  # white space of the line before the segment
    trailing_space: str  # white space at the end of the line, after its last segment
    text: str
    ids: list[int]
    flags: tuple[str, ...] = ()
    constraints: TokenConstraints | None = None
    hypotheses: list[Hypothesis] = field(default_factory=list)  # best first
    violates_exclusion: bool = False  # all hypotheses contain an excluded text
    texts: list[str] = field(default_factory=list)  # of `hypotheses`
    lacks: Sequence[tuple[str, ...]] = ()  # flags of each text, see Alternative
    replaced: Sequence[Replacement] = ()  # in the best text
    terms: tuple[tuple[str, str], ...] = ()  # see Translation
    is_in_capitals: bool = False  # whether the line was; `text` is in lower case then
    end: int = 0  # characters of the line up to the end of the segment
    removal: Removal | None = None  # of the spans that the ids lack
    spelled: tuple[Sequence[str], Sequence[str]] | None = None  # tokens with the spans that were put back

    def spell(self, pair: TokenizerPair) -> tuple[Sequence[str], Sequence[str]]:
        """The tokens of the text and of the best hypothesis, with U+2581 for a space."""
        if self.spelled is not None:
            return self.spelled
        text = self.text if self.removal is None else self.removal.rest
        return pair.spell("src", self.ids, text), pair.spell("tgt", self.hypotheses[0].tokens, text)

    def accept(self, hypotheses: list[Hypothesis], token_bytes: Sequence[bytes]) -> None:
        """Store the hypotheses that contain no excluded text; all of them if none is without.

        Search excludes them too, but tokens that are forced by other constraints can spell an excluded text.
        """
        self.hypotheses, self.violates_exclusion = hypotheses, False
        if self.constraints is None or not self.constraints.exclude:
            return
        written = [b"".join(token_bytes[token] for token in h.tokens) for h in hypotheses]
        valid = [
            h
            for h, text in zip(hypotheses, written, strict=True)
            if not any(excluded in text for excluded in self.constraints.exclude)
        ]
        self.hypotheses = valid or hypotheses
        self.violates_exclusion = not valid
