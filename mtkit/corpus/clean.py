"""Removal of faulty pairs from parallel text: filters judge all pairs, and what is kept stays as it is, in its order.

The text is read for its number of pairs; for a sample, from which filters learn what is usual; for the filters; and for
the output. Memory holds four bytes a pair, and what filters of the whole text need.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from itertools import compress, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.config import construct
from mtkit.corpus.filters.config import FilterConfig
from mtkit.corpus.filters.filter import Context, Filter, PairBlock
from mtkit.corpus.lenient_reading import NUM_PLACES, JoinedInput, ParallelInput, Side, pair_blocks, shown_places
from mtkit.corpus.sentence_alignment import sample_rows
from mtkit.corpus.store import SIDES
from mtkit.display import count_of
from mtkit.documents.pairs import OneSided
from mtkit.errors import DataError
from mtkit.io.files import translate_read_errors, write_atomically, write_json
from mtkit.text.lines import check_line_counts, without_compression

REJECTED, FLAGGED, REPORT = "rejected.jsonl", "flagged.jsonl", "report.json"
MUCH = 0.2  # share of pairs with one fault that clean and noisy corpora hardly reach: a filter may be wrong there


@dataclass
class FilterResult:
    """Faults that a filter found.

    Attributes:
        alone: pairs that no other filter found.
        places: the first lines, as FILE:LINE.
        details: of the places, in words.
    """

    kind: str
    what: str
    weight: float
    count: int = 0
    alone: int = 0
    places: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)

    def sentence(self, pairs: int) -> str:
        """The result in one line."""
        action = {0.0: "removed", 1.0: "flagged"}.get(self.weight, f"weight {self.weight:g}")
        shown = shown_places(self.places, self.details, self.count, limit=3)
        return f"{action}: {self.what} ({self.count:,}, {self.count / pairs:.2%}): {shown}"


@dataclass
class CleanReport:
    """The result of cleaning a parallel text.

    Attributes:
        one_sided: what a document has of these beside the pairs.
        train: `corpus.train` of a recipe for the kept lines, relative to the folder of the result.
    """

    name: str
    pairs: int
    removed: int
    filters: list[FilterResult]
    one_sided: OneSided = field(default_factory=OneSided)
    train: list[dict[str, Any]] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The report for people: a line for each filter that found something."""
        kept = self.pairs - self.removed
        lines = [
            f"{self.name}: {kept:,} of {count_of(self.pairs, 'pair')} kept, {self.removed / self.pairs:.2%} removed"
        ]
        lines += [f"{self.name}: {self.one_sided.sentence()}"] if self.one_sided.count else []
        results = sorted(self.filters, key=lambda each: (each.weight, -each.count))
        lines += [each.sentence(self.pairs) for each in results if each.count]
        lines += [
            f"{each.count / self.pairs:.0%} of the pairs are removed as {each.kind}, which is much: look at them"
            for each in results
            if each.weight == 0 and each.count > MUCH * self.pairs
        ]
        if len(self.train) > 1:
            keys = (", ".join(f"{key}: {value}" for key, value in each.items()) for each in self.train)
            lines.append(f"weights in a recipe: train: [{', '.join(f'{{{each}}}' for each in keys)}]")
        return lines

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"name": self.name, "pairs": self.pairs, "kept": self.pairs - self.removed, **asdict(self)}


class ShardFaults(NamedTuple):
    """Faults of consecutive pairs that filters of single pairs found.

    Attributes:
        faults: [N] as those of TextCleaner.
        first: index of the filter, number of the pair in the text, side and detail: NUM_PLACES of each filter.
    """

    faults: NDArray[np.uint32]
    first: list[tuple[int, int, int, str]]

    def save(self, path: Path) -> None:
        """Write them to a file; errors as `write_atomically`."""
        with write_atomically(path) as temporary, temporary.open("wb") as file:
            file.write(json.dumps(self.first).encode() + b"\n" + self.faults.astype("<u4").tobytes())

    @classmethod
    def load(cls, path: Path) -> ShardFaults:
        """Read them from a file."""
        with translate_read_errors(path):
            first, _, faults = path.read_bytes().partition(b"\n")
        return cls(np.frombuffer(faults, dtype="<u4").astype(np.uint32), [tuple(each) for each in json.loads(first)])


def find_faults(text: ParallelInput, filters: Mapping[int, Filter], bounds: tuple[int, int | None]) -> ShardFaults:
    """The faults of the pairs from `bounds[0]` to `bounds[1]` (None: the end) of a text; this maps a shard.

    Args:
        filters: by their indices in `faults`.
    """
    found, first, counts = [], list[tuple[int, int, int, str]](), dict.fromkeys(filters, 0)
    for block in _blocks(text, *bounds):
        faults = np.zeros(len(block), dtype=np.uint32)
        for index, fault in ((index, fault) for index, each in filters.items() for fault in each.find(block)):
            bit = np.uint32(1 << index)
            if counts[index] < NUM_PLACES and not faults[fault.row] & bit:
                first.append((index, int(block.numbers[fault.row]), fault.side, fault.detail))
                counts[index] += 1
            faults[fault.row] |= bit
        found.append(faults)
    return ShardFaults(np.concatenate([np.zeros(0, dtype=np.uint32), *found]), first)


def _blocks(text: ParallelInput, start: int, end: int | None) -> Iterator[PairBlock]:
    odd: list[tuple[str, int, int]] = []  # kind, side, number; the reader is ahead of the blocks

    def record(kind: str, side: Side, number: int) -> None:
        odd.append((kind, int(side == "tgt"), number))

    for lines in pair_blocks(islice(text.read(record), start, end)):
        pairs = [pair for pair in lines if None not in pair]
        stop = start + len(pairs)
        ours = [(kind, side, number - start) for kind, side, number in odd if start <= number < stop]
        odd[:] = [each for each in odd if each[2] >= stop]
        yield PairBlock(np.arange(start, stop), pairs, ours)
        start = stop


class TextCleaner:
    """The filters of one parallel text: `judge` finds the faults, and `write` the text without them.

    Args:
        configs: the filters; each learns what is usual from pairs that those before it keep.
        context: lines of valid and test, and how models score pairs; languages are those of the text.

    Attributes:
        faults: [N] the filters that found a fault in each pair, one bit each.
    """

    def __init__(self, text: ParallelInput, configs: Sequence[FilterConfig], context: Context) -> None:
        self._text, self._configs = text, configs
        self._context = context._replace(langs=text.langs)
        self._results = [FilterResult(config.kind, config.what, config.weight) for config in configs]
        self._state = self._current_state()
        self._one_sided = OneSided()
        self.faults: NDArray[np.uint32] = np.empty(0, dtype=np.uint32)

    @cached_property
    def pairs(self) -> int:
        """The number of pairs; errors as `judge`."""
        if self._text.files:
            return check_line_counts(*self._text.files)
        count = sum(1 for _ in self._text.read(lambda *place: None))
        self._one_sided = self._text.one_sided
        return count

    @cached_property
    def _filters(self) -> list[Filter]:
        """The filters, which have learned what is usual in the text."""
        filters: list[Filter] = [construct(config) for config in self._configs]
        sample = self._sample(self.pairs)
        for each, config in zip(filters, self._configs, strict=True):
            each.learn(sample, self._context)
            if config.weight == 0 and not each.is_late:  # later filters learn from what earlier ones keep
                sample = sample.without({fault.row for fault in each.find(sample)})
        return filters

    @property
    def finder(self) -> Callable[[tuple[int, int]], ShardFaults]:
        """`find_faults` of the filters of single pairs, for parts of the text; its other filters see the whole."""
        filters = {index: each for index, each in enumerate(self._filters) if not each.is_late}
        return partial(find_faults, self._text, filters)

    def judge(self, parts: Sequence[ShardFaults] = ()) -> CleanReport:
        """Find the faults of all pairs.

        Args:
            parts: of all parts of the text, in order, what `finder` found; none: it is found here.

        Raises:
            DataError: the numbers of lines differ, there are none, all are removed, or a file changed meanwhile.
            MissingInputError, ReadWriteError, MissingExtraError: as `lenient_lines`.
        """
        pairs = self.pairs
        self._find(parts)
        for index, result in enumerate(self._results):
            result.count = int((self.faults & np.uint32(1 << index) > 0).sum())
            result.alone = int((self.faults == np.uint32(1 << index)).sum())
        name = self._text.name
        report = CleanReport(name, pairs, int((self.weights == 0).sum()), self._results, self._one_sided)
        if report.removed == pairs:
            found = [f"{each.what} ({each.count:,})" for each in self._results if each.count and not each.weight]
            raise DataError(f"{name}: all {count_of(pairs, 'pair')} have faults: {', '.join(found)}")
        return report

    @property
    def weights(self) -> NDArray[np.float32]:
        """[N] the lowest weight of the filters that found a fault in each pair; 1 without faults."""
        weights = np.ones(len(self.faults), dtype=np.float32)
        for index, config in enumerate(self._configs):
            has_fault = self.faults & np.uint32(1 << index) > 0
            weights[has_fault] = np.minimum(weights[has_fault], config.weight)
        return weights

    def _current_state(self) -> list[tuple[int, int]]:
        states = []
        for path in dict.fromkeys(self._text.paths):
            with translate_read_errors(path):
                states.append((path.stat().st_size, path.stat().st_mtime_ns))
        return states

    def _require_unchanged(self, *, is_complete: bool = True) -> None:
        if not is_complete or self._current_state() != self._state:
            raise DataError(f"{self._text.name}: changed while they were read; clean them when they are complete")

    def _sample(self, pairs: int) -> PairBlock:
        rows = sample_rows(pairs)
        is_sampled = np.isin(np.arange(pairs), rows)
        chosen = list(compress(self._text.read(lambda *place: None), is_sampled))
        return PairBlock(rows[: len(chosen)], chosen)

    def _find(self, parts: Sequence[ShardFaults]) -> None:
        filters = {index: each for index, each in enumerate(self._filters) if each.is_late or not parts}
        whole = find_faults(self._text, filters, (0, None)) if filters else ShardFaults(parts[0].faults[:0], [])
        parts = parts or [whole]
        self.faults = np.concatenate([part.faults for part in parts])
        self._require_unchanged(is_complete=len(self.faults) == self.pairs)
        for index, number, side, detail in (place for part in parts for place in part.first):
            self._add_place(index, number, side, detail)
        for index, each in enumerate(self._filters):
            late = each.find_late(self.weights > 0)
            self.faults[late] |= np.uint32(1 << index)
            for number in late[:NUM_PLACES].tolist():
                self._add_place(index, number)

    def _add_place(self, index: int, number: int, side: int = 0, detail: str = "") -> None:
        """Record where a filter found a fault."""
        result = self._results[index]
        if len(result.places) < NUM_PLACES:
            result.places.append(self._text.place(side, number))
            result.details.append(detail)

    def write(self, report: CleanReport, folder: Path) -> CleanReport:
        """Write the kept lines of each weight, the rejected and flagged ones with all reasons, and the report.

        Args:
            report: of `judge`; `corpus.train` of the kept lines is added to it.
            folder: exists.

        Raises:
            DataError: a file changed since it was judged.
            OSError: the disk is full.
        """
        names, weights = output_names(self._text), self.weights
        values, counts = np.unique(weights[weights > 0], return_counts=True)
        outputs: dict[float, list[BinaryIO]] = {}
        with ExitStack() as stack:
            for weight, count in zip(values[::-1].tolist(), counts[::-1].tolist(), strict=True):
                part = f"weight-{weight:g}/" if weight < 1 else ""
                (folder / part).mkdir(exist_ok=True)
                outputs[weight] = [stack.enter_context((folder / part / name).open("wb")) for name in names]
                files: dict[str, Any] = {side: part + name for side, name in zip(SIDES, names, strict=True)}
                share = {"weight": round(weight * count, 6)} if len(values) > 1 else {}
                report.train.append({**files, **share})
            rejected, flagged = (stack.enter_context((folder / name).open("wb")) for name in (REJECTED, FLAGGED))
            lines = dict.fromkeys(outputs, 0)
            for number, pair in enumerate(islice(self._text.read_bytes(), len(weights))):
                reasons = [each.kind for index, each in enumerate(self._configs) if self.faults[number] >> index & 1]
                weight = float(weights[number])
                if weight == 0:
                    texts: dict[str, Any] = {
                        side: line.decode(errors="surrogateescape") for side, line in zip(SIDES, pair, strict=True)
                    }
                    rejected.write(_json_line({**self._text.origin(number), "reasons": reasons, **texts}))
                    continue
                lines[weight] += 1
                for file, line in zip(outputs[weight], pair, strict=True):
                    file.write(line + b"\n")
                if reasons:
                    of = self._text.origin(number)
                    where = {"line": lines[weight], "weight": round(weight, 6), "of": of.pop("line"), **of}
                    flagged.write(_json_line({**where, "reasons": reasons}))
        self._require_unchanged()
        write_json(folder / REPORT, report.as_json())
        return report


def _json_line(content: dict[str, Any]) -> bytes:
    """A line of JSON; lone surrogates, which stand for bytes that are not UTF-8, as escapes."""
    return json.dumps(content, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def output_names(text: ParallelInput) -> tuple[str, str]:
    """The names of the cleaned files: those of the input without suffixes of compression, or NAME.src and NAME.tgt.

    NAME is `text` if there are several inputs.
    """
    src, tgt = (without_compression(Path(name)).name for name in text.names)
    if isinstance(text, JoinedInput):
        src = tgt = "text"
    if src == tgt or {src, tgt} & {REJECTED, FLAGGED, REPORT}:
        codes = [code or side for code, side in zip(text.langs, SIDES, strict=True)]
        src_code, tgt_code = codes if codes[0] != codes[1] else SIDES
        src, tgt = f"{src}.{src_code}", f"{tgt}.{tgt_code}"
    return src, tgt
