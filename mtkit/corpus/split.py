"""Split of a parallel corpus into train, valid and test by hashes, so that added lines never move old ones.

A pair, or a document, belongs to a part by the hash of its text alone: valid below a first limit, test below a second
one. The limits are chosen once, from the size of the corpus, and kept in split.json.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.filters.config import RatioFilterConfig
from mtkit.display import count_of
from mtkit.errors import DataError
from mtkit.text.lines import count_lines, read_lines

Part = Literal["train", "valid", "test"]
HELD_OUT_SHARE = 0.05  # of the pairs, for each of valid and test
MIN_HELD_OUT, MAX_HELD_OUT = 5, 1000
MIN_PAIRS = 100
MIN_CHARACTERS, MAX_CHARACTERS = 10, 1000  # of a held-out side: headings are no test, and occur many times
USUAL_SHARE = 0.9  # of the pairs that must be within these limits, which otherwise become those of the text
ODD_RATIO = RatioFilterConfig().max_ratio  # lengths of the two sides, relative to the median ratio
GIVE_HELD_OUT = "give files for them: --valid SRC TGT --test SRC TGT"
ODD_CHARACTERS = 40  # of the longer side; the ratio of shorter lines varies much


@dataclass(frozen=True)
class SplitLimits:
    """Upper limits of the hashes of valid and test, between 0 and 1, and limits of their lines."""

    valid: float
    test: float
    min_characters: int = MIN_CHARACTERS
    max_characters: int = MAX_CHARACTERS

    def of_lines(self) -> str:
        """The lengths that are never held out, in words."""
        return f"under {self.min_characters:,} or over {self.max_characters:,}"

    def part_of(self, position: float) -> Part:
        """The part of a pair or document with this hash."""
        return "valid" if position < self.valid else "test" if position < self.test else "train"


@dataclass
class TextFindings:
    """Counts of what is unusual in a parallel text.

    Attributes:
        duplicates: pairs that occur before.
        unusual: pairs that stay in train, since they are shorter or longer than held-out lines.
    """

    pairs: int = 0
    empty: int = 0
    duplicates: int = 0
    copies: int = 0
    odd: int = 0
    longest: int = 0
    unusual: int = 0
    limits: str = ""

    def describe(self) -> list[str]:
        """The findings as sentences."""
        found = {
            "with an empty side, dropped in training": self.empty,
            "found more than once": self.duplicates,
            "whose two sides are equal": self.copies,
            f"whose lengths differ {ODD_RATIO:.0f} times more than usual": self.odd,
        }
        if self.limits:
            found[f"left out of valid and test, with a side of {self.limits} characters"] = self.unusual
        lines = [f"{count_of(count, 'pair')} {what}" for what, count in found.items() if count]
        return [f"{count_of(self.pairs, 'pair')}, the longest line has {count_of(self.longest, 'character')}", *lines]


def position_of(text: str) -> float:
    """The hash of a text as a number from 0 to 1."""
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8], "big") / 2**64


def normalised(line: str) -> str:
    """A line without differences of case and spaces, by which pairs of train are compared with held-out ones."""
    return " ".join(line.casefold().split())


@dataclass(frozen=True)
class PairPositions:
    """Hashes of all pairs of a corpus.

    Attributes:
        hashes: [N] of each pair, or of its document.
        lengths: [N, 2] characters of both sides; 0 if one is blank.
    """

    hashes: NDArray[np.float64]
    lengths: NDArray[np.int64]
    has_documents: bool
    findings: TextFindings

    def positions(self, limits: SplitLimits) -> NDArray[np.float64]:
        """The hash of each pair, and 2 for a pair that is never held out, since it is too short or too long."""
        if self.has_documents:
            return self.hashes
        is_usual = (self.lengths.min(axis=1) >= limits.min_characters) & (
            self.lengths.max(axis=1) <= limits.max_characters
        )
        return np.where(is_usual, self.hashes, 2.0)

    def limits(self) -> SplitLimits:
        """Choose limits: HELD_OUT_SHARE of the pairs for each of valid and test, at most MAX_HELD_OUT.

        If MIN_CHARACTERS or MAX_CHARACTERS leave out too many pairs, as of a dictionary or of documents, the limits are
        such that at most one in twenty is too short, and one in twenty too long.

        Raises:
            DataError: there are too few pairs or documents.
        """
        pairs = len(self.hashes)
        shorter, longer = np.sort(self.lengths[self.lengths.min(axis=1) > 0], axis=1).T
        rest = (1 - USUAL_SHARE) / 2
        lowest, highest = MIN_CHARACTERS, MAX_CHARACTERS
        if len(shorter) and (shorter < lowest).mean() > rest:
            lowest = int(np.quantile(shorter, rest, method="lower"))
        if len(longer) and (longer > highest).mean() > rest:
            highest = int(np.quantile(longer, 1 - rest, method="higher"))
        limits = SplitLimits(0, 0, lowest, highest)
        count = round(min(max(HELD_OUT_SHARE * pairs, MIN_HELD_OUT), MAX_HELD_OUT))
        positions = self.positions(limits)
        ordered = np.sort(positions[positions < 1])
        if pairs < MIN_PAIRS or len(ordered) < 4 * count:
            blank = f", {pairs - len(shorter):,} of them with a blank side," if len(shorter) < pairs else ""
            raise DataError(f"{pairs:,} pairs{blank} are too few to hold valid and test sets out; {GIVE_HELD_OUT}")
        valid = _above(ordered, ordered[count - 1])
        test = _above(ordered, ordered[min(int(np.searchsorted(ordered, valid)) + count, len(ordered)) - 1])
        if test > 1:
            raise DataError(
                f"{pairs:,} pairs: too few different pairs or documents to hold valid and test sets out; "
                f"{GIVE_HELD_OUT}"
            )
        return replace(limits, valid=valid, test=test)


def _above(ordered: NDArray[np.float64], value: float) -> float:
    """The next larger hash; 2 if there is none."""
    index = int(np.searchsorted(ordered, value, side="right"))
    return float(ordered[index]) if index < len(ordered) else 2.0


def hash_pairs(src: Path, tgt: Path, docid: Path | None = None) -> PairPositions:
    """Read a parallel corpus and hash its pairs, or the documents that they belong to.

    Args:
        src: text of the source language.
        tgt: its translation, line by line.
        docid: a file with the name of each line's document.

    Raises:
        DataError: docid has another number of lines, or a blank one; otherwise as `read_lines`.
    """
    if docid is not None and (lines := count_lines(docid)) != (pairs := count_lines(src)):
        raise DataError(
            f"{docid}: {count_of(lines, 'line')}, but {src} has {pairs:,}; each line of it names a pair's document"
        )
    findings = TextFindings()
    positions, lengths, blank = [], [], []
    hashes: set[int] = set()
    documents: Iterable[str | None] = () if docid is None else read_lines(docid)
    for source, target, document in zip_longest(read_lines(src), read_lines(tgt), documents):
        position = position_of(f"{source}\t{target}")
        findings.pairs += 1
        is_blank = not (source.strip() and target.strip())
        findings.empty += is_blank
        findings.copies += source == target and bool(source.strip())
        findings.duplicates += (key := int(position * 2**53)) in hashes
        hashes.add(key)
        lengths.append((len(source), len(target)))
        blank.append(is_blank)
        if document is not None:
            if not document.strip():
                raise DataError(f"{docid}:{findings.pairs}: blank; write the name of a document on each line")
            position = position_of(f"document {document}")
        positions.append(position)
    characters = np.array(lengths, dtype=np.int64).reshape(-1, 2)  # [N, 2] of both sides
    findings.longest = int(characters.max(initial=0))
    findings.odd = int(are_odd(characters, usual_ratio(characters)).sum())
    characters[blank] = 0
    return PairPositions(np.array(positions), characters, docid is not None, findings)


def usual_ratio(characters: NDArray[np.integer[Any]]) -> float:
    """The median ratio of the lengths of two sides [N, 2]; 1 if all pairs have an empty side."""
    both = characters[(characters > 0).all(axis=1)]
    return float(np.median(both[:, 0] / both[:, 1])) if len(both) else 1.0


def are_odd(characters: NDArray[np.integer[Any]], usual: float, max_ratio: float = ODD_RATIO) -> NDArray[np.bool_]:
    """[N] whether the ratio of the lengths of two sides [N, 2] is `max_ratio` times larger or smaller than usual."""
    both = np.maximum(characters, 1)
    relative = both[:, 0] / both[:, 1] / usual
    is_odd = (np.maximum(relative, 1 / relative) > max_ratio) & (both.max(axis=1) > ODD_CHARACTERS)
    return np.asarray(is_odd & (characters > 0).all(axis=1))


@dataclass
class HeldOutLines:
    """Hashes of the normalised lines of valid and test, which train must not contain.

    Attributes:
        min_characters: shorter sources may be in all parts, as headings are; so may targets below MIN_CHARACTERS, of
            which a dictionary has few.
    """

    src: set[int]
    tgt: set[int]
    min_characters: int

    def add(self, src: str, tgt: str) -> bool:
        """Add a pair; return False if one of its sides was there."""
        is_new = not any(self.matches(src, tgt))
        self.src.add(hash(normalised(src)))
        self.tgt.add(hash(normalised(tgt)))
        return is_new

    def matches(self, src: str, tgt: str) -> tuple[bool, bool]:
        """Return whether the source is held out, and whether the target is."""
        return (
            len(src) >= self.min_characters and hash(normalised(src)) in self.src,
            len(tgt) >= max(self.min_characters, MIN_CHARACTERS) and hash(normalised(tgt)) in self.tgt,
        )


def read_pairs(src: Path, tgt: Path) -> Iterator[tuple[str, str]]:
    """The pairs of two files of equal length."""
    return zip(read_lines(src), read_lines(tgt), strict=True)
