"""Faults of parallel text, with their places: bytes, characters, repetition, alignment, languages, held-out lines.

The text is read twice. The first time, lines become hashes and counts; the second time, the languages of groups of
lines are classified: of a sample, and wherever words are unknown or no translation was found.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mtkit.config import construct
from mtkit.corpus.filters.config import (
    CopyFilterConfig,
    DuplicateFilterConfig,
    FilterConfig,
    NearDuplicateFilterConfig,
    default_filters,
)
from mtkit.corpus.filters.duplicates import DuplicateFilter, NearDuplicateFilter
from mtkit.corpus.filters.filter import Filter, PairBlock
from mtkit.corpus.language_groups import (
    GROUP,
    LINE_START,
    MIN_LETTERS,
    LineGroup,
    count_scripts,
    languages_of,
    other_languages,
    other_scripts,
    with_unknown_words,
)
from mtkit.corpus.lenient_reading import NUM_PLACES, ParallelInput, pair_blocks, shown_places
from mtkit.corpus.near_match import HeldOutText, bag_hashes
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.sentence_alignment import (
    MIN_LINES,
    AlignedLines,
    Aligner,
    TokenLines,
    TokenSide,
    sample_rows,
)
from mtkit.corpus.split import are_odd, usual_ratio
from mtkit.display import count_of
from mtkit.errors import DataError

Level = Literal["error", "warning", "note"]
RUN = 20  # consecutive pairs that occur before in the same order
MIN_UNRELATED, MIN_MOVED = 5, 3  # lines
MAX_BLUR = 3  # lines by which the borders of a moved block may be wrong


@dataclass(frozen=True)
class Kind:
    """A kind of findings.

    Attributes:
        level: error: a model would learn what is wrong, or its score would be.
        usual: share of the pairs up to which a finding is only a note.
    """

    level: Level
    what: str
    remedy: str
    usual: float = 0.0


CLEAN = "mtkit clean removes them"
_FILTERS: dict[str, FilterConfig] = {each.kind: each for each in default_filters()}
KINDS: dict[str, Kind] = {
    "lengths": Kind("error", "the files have different numbers of lines", "give each line its translation"),
    "not_utf8": Kind("error", "not UTF-8", "convert the file: iconv -f latin1 -t utf-8"),
    "shift": Kind("error", "translations are on other lines", "a line is missing or was added there; mend the file"),
    "moved": Kind("error", "translations are elsewhere", "a block was moved; put it back, or remove it on both sides"),
    "language": Kind("error", "another language than the rest", "remove these pairs, or give them files of their own"),
    "script": Kind("error", "another script than the rest", "remove these pairs, or give them files of their own"),
    "leak": Kind("error", "pairs are in valid or test", "remove them; scores on text that was trained on say nothing"),
    "replacement": Kind("warning", "characters U+FFFD, where text was lost", "convert the original again"),
    "mojibake": Kind("warning", "UTF-8 that was read as Latin-1, such as \u00c3\u00a4", "convert the original again"),
    "doubled": Kind("warning", "pairs repeat earlier ones in the same order", "remove them; they weigh double"),
    "unrelated": Kind("warning", "no translations of each other", "look at them; remove them if they are none"),
    "leak_near": Kind("warning", "pairs differ from one of valid or test by a word at most", "remove them", 0.01),
    "leak_side": Kind("warning", "pairs with one side in valid or test", "mtkit new leaves them out", 0.001),
    "bom": Kind("warning", "a byte order mark", "mtkit drops it, other programs may not"),
    "line_break": Kind(
        "warning", "characters in lines that other programs break lines at", "replace them by spaces: other counts"
    ),
    "control": Kind("warning", "control or private characters", "remove them; a model would learn to write them", 1e-4),
    "repeated": Kind("warning", _FILTERS["repeated"].what, CLEAN, 1e-3),
    "empty": Kind("warning", _FILTERS["empty"].what, "training drops them", 0.001),
    "one_sided": Kind("warning", "pairs with one empty side, which are left out", "give them both, or remove them"),
    "copies": Kind("warning", _FILTERS["copies"].what, f"{CLEAN}, if they should be translated", 0.01),
    "duplicates": Kind("warning", _FILTERS["duplicates"].what, f"{CLEAN}; they weigh more", 0.1),
    "near_duplicates": Kind("warning", _FILTERS["near_duplicates"].what, "look at them", 0.1),
    "odd_lengths": Kind("warning", _FILTERS["odd_lengths"].what, CLEAN, 0.01),
    "numbers": Kind("warning", _FILTERS["numbers"].what, "look at them", 0.1),
    "urls": Kind("warning", _FILTERS["urls"].what, "look at them", 0.01),
    "markup": Kind("warning", _FILTERS["markup"].what, "look at them", 0.01),
}
PAIR_FILTERS = (
    CopyFilterConfig(min_words=1),
    *(_FILTERS[kind] for kind in ("empty", "repeated", "numbers", "urls", "markup")),
)


@dataclass
class Finding:
    """A kind of fault in a text.

    Attributes:
        places: the first lines, as FILE:LINE or FILE:LINE-LINE.
        details: of the places, in words; empty if there is nothing to add.
    """

    kind: str
    count: int
    places: list[str]
    details: list[str]
    level: Level = "warning"

    def sentence(self) -> str:
        """The finding in one line."""
        kind = KINDS[self.kind]
        shown = shown_places(self.places, self.details, self.count, limit=5)
        return f"{kind.what} ({self.count:,}): {shown}; {kind.remedy}"


@dataclass
class CheckReport:
    """The findings of a parallel text, errors first."""

    name: str
    pairs: int
    findings: list[Finding]

    @property
    def num_errors(self) -> int:
        """The number of kinds of errors."""
        return sum(each.level == "error" for each in self.findings)

    def lines(self) -> list[str]:
        """The report for people: a line for each error and warning, and one for all notes."""
        counts = Counter(each.level for each in self.findings)
        found = [count_of(counts[level], level) for level in ("error", "warning") if counts[level]]
        lines = [f"{self.name}: {count_of(self.pairs, 'pair')}, {' and '.join(found) or 'nothing wrong'}"]
        lines += [f"{each.level}: {each.sentence()}" for each in self.findings if each.level != "note"]
        if notes := [f"{KINDS[each.kind].what} {each.count:,}" for each in self.findings if each.level == "note"]:
            lines.append(f"in usual numbers: {', '.join(notes)}")
        return lines

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        findings = [
            {**asdict(each), "what": KINDS[each.kind].what, "remedy": KINDS[each.kind].remedy} for each in self.findings
        ]
        return {"name": self.name, "pairs": self.pairs, "findings": findings}


class TextCheck:
    """The check of one parallel text; findings are collected by kind.

    Args:
        held_out: lines of valid and test, which the text must not contain.
    """

    def __init__(self, text: ParallelInput, held_out: HeldOutText | None = None) -> None:
        self._text, self._held_out = text, held_out
        self._found: dict[str, list[tuple[str, str]]] = {}
        self._counts: Counter[str] = Counter()
        self._pairs = 0

    def __call__(self) -> CheckReport:
        """Read the text and return what is found.

        Raises:
            DataError, MissingInputError, ReadWriteError, MissingExtraError: as `lenient_lines`; or a side is empty.
        """
        sides = self._first_reading()
        if count := self._text.one_sided.count:
            self._add("one_sided", self._text.one_sided.first, count=count)
        if not self._pairs:
            raise DataError(
                f"{self._text.names[0]} and {self._text.names[1]}: one is empty; give a text and its translation"
            )
        segments = []
        if self._pairs >= MIN_LINES:
            segments = Aligner(*sides).segments()
            self._report_segments(segments, sides)
        self._second_reading(sides, segments)
        findings = []
        for kind, facts in KINDS.items():
            if count := self._counts[kind]:
                is_usual = count <= facts.usual * self._pairs
                places, details = zip(*self._found[kind], strict=True)
                findings.append(Finding(kind, count, list(places), list(details), "note" if is_usual else facts.level))
        order = ("error", "warning", "note")
        return CheckReport(self._text.name, self._pairs, sorted(findings, key=lambda each: order.index(each.level)))

    def _add(self, kind: str, place: str, detail: str = "", count: int = 1) -> None:
        self._counts[kind] += count
        if len(places := self._found.setdefault(kind, [])) < NUM_PLACES:
            places.append((place, detail))

    def _add_all(self, kind: str, rows: NDArray[np.int64], side: int = 0) -> None:
        for row in rows[:NUM_PLACES]:
            self._add(kind, self._text.place(side, int(row)))
        self._counts[kind] += max(0, len(rows) - NUM_PLACES)

    def _first_reading(self) -> tuple[TokenSide, TokenSide]:
        tokens = TokenLines(), TokenLines()
        filters: list[tuple[str, Filter]] = [(config.kind, construct(config)) for config in PAIR_FILTERS]
        duplicates = DuplicateFilter(DuplicateFilterConfig())
        near_duplicates = NearDuplicateFilter(NearDuplicateFilterConfig())
        sizes = []
        lines = [0, 0]
        rows = self._text.read(lambda kind, side, number: self._add(kind, self._text.place(int(side == "tgt"), number)))
        for block in pair_blocks(rows):
            complete = [pair for pair in block if None not in pair]
            for side in (0, 1):
                lines[side] += sum(pair[side] is not None for pair in block)
            pairs = PairBlock(np.arange(self._pairs, self._pairs + len(complete)), complete)
            for kind, detector in [*filters, ("duplicates", duplicates), ("near_duplicates", near_duplicates)]:
                for fault in detector.find(pairs):
                    self._add(kind, self._text.place(fault.side, self._pairs + fault.row))
            self._pairs += len(complete)
            both = [each.append(side) for each, side in zip(tokens, pairs.sides, strict=True)]
            if self._held_out is not None:
                self._find_leaks(self._held_out, pairs.src, pairs.tgt, both)
            sizes.append(pairs.characters.astype(np.int32))
        if not self._pairs:
            return tokens[0].read(), tokens[1].read()
        if lines[0] != lines[1]:
            longer = int(lines[1] > lines[0])
            self._add(
                "lengths",
                self._text.place(longer, min(lines)),
                f"{lines[0]:,} and {lines[1]:,} lines",
                abs(lines[0] - lines[1]),
            )
        first = duplicates.first_occurrence(np.arange(self._pairs))
        self._find_repeated(first)
        self._add_all("near_duplicates", near_duplicates.find_late(first == np.arange(self._pairs)))
        characters = np.concatenate(sizes)
        self._add_all("odd_lengths", np.flatnonzero(are_odd(characters, usual_ratio(characters))))
        return tokens[0].read(), tokens[1].read()

    def _find_leaks(self, held_out: HeldOutText, src: list[str], tgt: list[str], tokens: list[Ragged]) -> None:
        is_exact = np.zeros(len(src), dtype=bool)
        for row, pair in enumerate(zip(src, tgt, strict=True)):
            if any(sides := held_out.lines.matches(*pair)):
                is_exact[row] = True
                self._add("leak" if all(sides) else "leak_side", self._text.place(0, self._pairs - len(src) + row))
        is_near = held_out.are_near(tokens) & ~is_exact
        self._add_all("leak_near", np.flatnonzero(is_near) + self._pairs - len(src))

    def _find_repeated(self, first: NDArray[np.int64]) -> None:
        """Report duplicates, from the first pair that is equal to each."""
        rows = np.arange(len(first))
        is_repeated = first < rows
        self._add_all("duplicates", np.flatnonzero(is_repeated))
        # a run of pairs that repeat earlier ones at one distance; in it, some repeat even earlier ones
        ends = np.flatnonzero(np.diff(np.concatenate([[False], is_repeated, [False]]).astype(np.int8)))
        for start, end in ends.reshape(-1, 2):
            distances, counts = np.unique(rows[start:end] - first[start:end], return_counts=True)
            if end - start >= RUN and counts.max() > (end - start) / 2:
                earlier = int(start - distances[counts.argmax()])
                detail = f"repeats {self._text.place(0, earlier, earlier + int(end - start))}"
                self._add("doubled", self._text.place(0, int(start), int(end)), detail, int(end - start))

    def _report_segments(self, segments: list[AlignedLines], sides: tuple[TokenSide, TokenSide]) -> None:
        """Report segments whose translations are not opposite: moved blocks, and shifts, which are longer than far."""
        base = 0
        for each in segments:
            size, offset = each.end - each.start, base if each.offset is None else each.offset
            place = self._text.place(0, each.start, each.end)
            is_varied = _is_varied(sides[0], each, 0) and _is_varied(sides[1], each, offset)
            if each.offset is None and size >= MIN_UNRELATED and is_varied:
                self._add("unrelated", place, "", size)
            elif abs(offset - base) > size - MAX_BLUR:
                if size >= MIN_MOVED and is_varied and offset != base:
                    found = self._text.place(1, each.start + offset, each.end + offset)
                    self._add("moved", place, f"their translations: {found}", size)
            elif offset != base:
                sign = f" {'-' if offset < 0 else '+'} {abs(offset)}" if offset else ""
                detail = f"from here on the translation of line n is line n{sign} of {self._text.names[1]}"
                self._add("shift", self._text.place(0, each.start), detail)
                base = offset

    def _second_reading(self, sides: tuple[TokenSide, TokenSide], segments: list[AlignedLines]) -> None:
        """Classify groups of lines: of a sample, and those whose words are unknown or that have no translation."""
        sampled = np.zeros(-(-self._pairs // GROUP), dtype=bool)
        sampled[sample_rows(self._pairs) // GROUP] = True
        for each in segments:
            if each.offset is None:
                sampled[each.start // GROUP : -(-each.end // GROUP)] = True
        wanted = [sampled | with_unknown_words(side) for side in sides]
        groups: list[list[LineGroup]] = [[], []]
        pairs = (pair for pair in self._text.read(lambda *place: None) if None not in pair)
        for number in range(len(sampled)):
            block = list(islice(pairs, GROUP))
            for side in (0, 1):
                text = " ".join(str(pair[side])[:LINE_START] for pair in block if wanted[side][number])
                if sum(map(str.isalpha, text[: 4 * MIN_LETTERS])) >= MIN_LETTERS:
                    groups[side].append(LineGroup(number, count_scripts(text), languages_of(text)))
        for side in (0, 1):
            other = other_scripts(groups[side])
            self._add_runs("script", side, other)
            rest = [each for each in groups[side] if each.number not in other]
            self._add_runs("language", side, other_languages(rest, self._text.langs[side]))

    def _add_runs(self, kind: str, side: int, other: dict[int, str]) -> None:
        """Neighbouring groups of lines as one place."""
        numbers = sorted(other)
        start = 0
        for index in range(1, len(numbers) + 1):
            if index == len(numbers) or numbers[index] > numbers[index - 1] + 2:
                first, last = numbers[start] * GROUP, min(self._pairs, (numbers[index - 1] + 1) * GROUP)
                self._add(kind, self._text.place(side, first, last), other[numbers[start]], last - first)
                start = index


def _is_varied(side: TokenSide, segment: AlignedLines, offset: int) -> bool:
    """Return whether most lines differ: of repeated ones, such as variants of one idiom, the words say little."""
    rows = np.arange(max(0, segment.start + offset), min(len(side), segment.end + offset))
    return len(np.unique(bag_hashes(side.tokens.take(rows)))) > len(rows) / 2
