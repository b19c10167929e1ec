"""Removal of faulty pairs from parallel text: filters judge all pairs, and what is kept stays as it is, in its order.

The text is read three times: for a sample, from which filters learn what is usual; for the filters; and for the
output. Memory holds four bytes a pair, and what filters of the whole text need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mtkit.config import construct
from mtkit.corpus.filters.config import FilterConfig
from mtkit.corpus.filters.filter import Context, Fault, Filter, PairBlock
from mtkit.corpus.lenient_reading import ParallelInput, Side, pair_blocks
from mtkit.corpus.sentence_alignment import sample_rows
from mtkit.corpus.store import SIDES
from mtkit.display import count_of
from mtkit.errors import DataError
from mtkit.io.files import translate_read_errors, write_json
from mtkit.text.lines import COMPRESSION_SUFFIXES, check_line_counts

NUM_PLACES, NUM_SHOWN = 100, 3  # of a filter in JSON, and for people
REJECTED, FLAGGED, REPORT = "rejected.jsonl", "flagged.jsonl", "report.json"
_KEEP_BYTES = "surrogateescape"
SUSPICIOUS = 0.2  # share of pairs that one filter removes, from which on it is said


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
    count: int
    alone: int
    places: list[str]
    details: list[str]

    def sentence(self, pairs: int) -> str:
        """The result in one line."""
        action = {0.0: "removed", 1.0: "flagged"}.get(self.weight, f"weight {self.weight:g}")
        shown = [f"{place} ({more})" if more else place for place, more in zip(self.places, self.details, strict=True)]
        dots = ", ..." if self.count > NUM_SHOWN else ""
        share = f"{self.count / pairs:.2%}"
        return f"{action}: {self.what} ({self.count:,}, {share}): {', '.join(shown[:NUM_SHOWN])}{dots}"


@dataclass
class CleanReport:
    """The result of cleaning a parallel text.

    Attributes:
        train: `corpus.train` of a recipe for the kept lines, relative to the folder of the result.
    """

    name: str
    pairs: int
    removed: int
    filters: list[FilterResult]
    train: list[dict[str, Any]]

    def lines(self) -> list[str]:
        """The report for people: a line for each filter that found something."""
        kept = self.pairs - self.removed
        lines = [
            f"{self.name}: {kept:,} of {count_of(self.pairs, 'pair')} kept, {self.removed / self.pairs:.2%} removed"
        ]
        results = sorted(self.filters, key=lambda each: (each.weight, -each.count))
        lines += [each.sentence(self.pairs) for each in results if each.count]
        lines += [
            f"look at what was removed as {each.kind}: {each.count / self.pairs:.0%} of the text is much for a fault"
            for each in results
            if each.weight == 0 and each.count > SUSPICIOUS * self.pairs
        ]
        if len(self.train) > 1:
            keys = (", ".join(f"{key}: {value}" for key, value in each.items()) for each in self.train)
            lines.append(f"weights in a recipe: train: [{', '.join(f'{{{each}}}' for each in keys)}]")
        return lines

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"name": self.name, "pairs": self.pairs, "kept": self.pairs - self.removed, **asdict(self)}


class TextCleaner:
    """The filters of one parallel text.

    Args:
        configs: the filters, in any order.
        context: lines of valid and test, and how models score pairs; languages are those of the text.
    """

    def __init__(self, text: ParallelInput, configs: Sequence[FilterConfig], context: Context) -> None:
        self._text, self._configs = text, configs
        self._context = context._replace(langs=text.langs)
        self._places: list[list[tuple[str, str]]] = [[] for _ in configs]
        self._weights = np.array([config.weight for config in configs])

    def __call__(self, folder: Path) -> CleanReport:
        """Judge all pairs and write the files of the result into an existing folder.

        Raises:
            DataError: the numbers of lines differ, there are none, all are removed, or a file changed meanwhile.
            MissingInputError, ReadWriteError, MissingExtraError: as `lenient_lines`.
            OSError: the disk is full.
        """
        before = self._state()
        pairs = self._count()
        filters: list[Filter] = [construct(config) for config in self._configs]
        sample = self._sample(pairs)
        for each, config in zip(filters, self._configs, strict=True):
            each.learn(sample, self._context)
            if config.weight == 0 and not each.is_late:  # later filters learn from what earlier ones keep
                sample = sample.without({fault.row for fault in each.find(sample)})
        del sample
        faults = self._judge(filters, pairs)
        weights = self._weights_of(faults)
        if not weights.any():
            raise DataError(f"{self._text.names[0]}: all {count_of(pairs, 'pair')} have faults; see mtkit check")
        train = self._write(folder, faults, weights)
        if self._state() != before:
            raise self._changed()
        report = CleanReport(self._name(), pairs, int((weights == 0).sum()), self._results(faults), train)
        write_json(folder / REPORT, report.as_json())
        return report

    def _changed(self) -> DataError:
        return DataError(f"{self._name()}: changed while they were read; clean them when they are complete")

    def _name(self) -> str:
        src, tgt = self._text.names
        return src if src == tgt else f"{src} and {tgt}"

    def _state(self) -> list[tuple[int, int]]:
        states = []
        for path in map(Path, dict.fromkeys(self._text.names)):
            with translate_read_errors(path):
                states.append((path.stat().st_size, path.stat().st_mtime_ns))
        return states

    def _count(self) -> int:
        if self._text.files:
            return check_line_counts(*self._text.files)
        return sum(1 for _ in self._text.read(lambda *place: None))

    def _sample(self, pairs: int) -> PairBlock:
        rows = sample_rows(pairs)
        wanted = np.zeros(pairs, dtype=bool)
        wanted[rows] = True
        chosen = [
            (str(src), str(tgt))
            for (src, tgt), is_wanted in zip(self._text.read(lambda *place: None), wanted, strict=False)
            if is_wanted
        ]
        return PairBlock(rows[: len(chosen)], [src for src, _ in chosen], [tgt for _, tgt in chosen])

    def _blocks(self) -> Iterator[PairBlock]:
        odd: list[tuple[str, int, int]] = []  # kind, side, number; the reader is ahead of the blocks

        def record(kind: str, side: Side, number: int) -> None:
            odd.append((kind, int(side == "tgt"), number))

        start = 0
        for lines in pair_blocks(self._text.read(record)):
            pairs = [(str(src), str(tgt)) for src, tgt in lines if src is not None and tgt is not None]
            end = start + len(pairs)
            ours = [(kind, side, number - start) for kind, side, number in odd if number < end]
            odd[:] = [each for each in odd if each[2] >= end]
            yield PairBlock(np.arange(start, end), [src for src, _ in pairs], [tgt for _, tgt in pairs], ours)
            start = end

    def _judge(self, filters: Sequence[Filter], pairs: int) -> NDArray[np.uint32]:
        """[N] the filters that found a fault in each pair, one bit each."""
        faults = np.zeros(pairs, dtype=np.uint32)
        end = 0
        for block in self._blocks():
            end += len(block)
            if end > pairs:
                break
            for index, each in enumerate(filters):
                for fault in each.find(block):
                    faults[block.numbers[fault.row]] |= np.uint32(1 << index)
                    self._add_place(index, int(block.numbers[0]), fault)
        if end != pairs:
            raise self._changed()
        for index, each in enumerate(filters):
            for number in (late := each.find_late(self._weights_of(faults) > 0))[:NUM_PLACES]:
                self._add_place(index, int(number), Fault(0))
            faults[late] |= np.uint32(1 << index)
        return faults

    def _add_place(self, index: int, start: int, fault: Fault) -> None:
        if len(self._places[index]) < NUM_PLACES:
            self._places[index].append((self._text.place(fault.side, start + fault.row), fault.detail))

    def _weights_of(self, faults: NDArray[np.uint32]) -> NDArray[np.float32]:
        """[N] the lowest weight of the filters that found something."""
        weights = np.ones(len(faults), dtype=np.float32)
        for index, weight in enumerate(self._weights):
            has_fault = faults & np.uint32(1 << index) > 0
            weights[has_fault] = np.minimum(weights[has_fault], weight)
        return weights

    def _results(self, faults: NDArray[np.uint32]) -> list[FilterResult]:
        results = []
        for index, config in enumerate(self._configs):
            count = int((faults & np.uint32(1 << index) > 0).sum())
            alone = int((faults == np.uint32(1 << index)).sum())
            places, details = ([each[part] for each in self._places[index]] for part in (0, 1))
            results.append(FilterResult(config.kind, config.what, config.weight, count, alone, places, details))
        return results

    def _write(self, folder: Path, faults: NDArray[np.uint32], weights: NDArray[np.float32]) -> list[dict[str, Any]]:
        """Write the kept lines of each weight, the rejected ones with all reasons, and the flagged ones.

        Returns:
            `corpus.train` of a recipe for the kept lines.
        """
        kinds = [config.kind for config in self._configs]
        names = output_names(self._text)
        values, counts = np.unique(weights[weights > 0], return_counts=True)
        train: list[dict[str, Any]] = []
        outputs: dict[float, list[BinaryIO]] = {}
        with ExitStack() as stack:
            for weight, count in zip(values[::-1].tolist(), counts[::-1].tolist(), strict=True):
                part = f"weight-{weight:g}/" if weight < 1 else ""
                (folder / part).mkdir(exist_ok=True)
                paths = [folder / part / name for name in names]
                outputs[weight] = [stack.enter_context(path.open("wb")) for path in paths]
                files: dict[str, Any] = {side: part + name for side, name in zip(SIDES, names, strict=True)}
                share = {"weight": round(weight * count, 6)} if len(values) > 1 else {}
                train.append({**files, **share})
            rejected, flagged = (stack.enter_context((folder / name).open("wb")) for name in (REJECTED, FLAGGED))
            lines = dict.fromkeys(outputs, 0)
            for number, pair in enumerate(islice(self._text.read_bytes(), len(faults))):
                reasons = [kind for index, kind in enumerate(kinds) if faults[number] >> np.uint32(index) & 1]
                weight = float(weights[number])
                if weight == 0:
                    texts: dict[str, Any] = {
                        side: line.decode(errors=_KEEP_BYTES) for side, line in zip(SIDES, pair, strict=True)
                    }
                    rejected.write(_json_line({"line": number + 1, "reasons": reasons, **texts}))
                    continue
                lines[weight] += 1
                for file, line in zip(outputs[weight], pair, strict=True):
                    file.write(line + b"\n")
                if reasons:
                    where = {"line": lines[weight], "weight": round(weight, 6), "of": number + 1}
                    flagged.write(_json_line({**where, "reasons": reasons}))
        return train


def _json_line(content: dict[str, Any]) -> bytes:
    """A line of JSON; lone surrogates, which stand for bytes that are not UTF-8, as escapes."""
    text = json.dumps(content, ensure_ascii=False)
    return re.sub(r"[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text).encode() + b"\n"


def output_names(text: ParallelInput) -> tuple[str, str]:
    """The names of the cleaned files: those of the input without suffixes of compression, or NAME.src and NAME.tgt."""
    src, tgt = (Path(name).name for name in text.names)
    while any(src.endswith(suffix) for suffix in COMPRESSION_SUFFIXES):
        src = src.rpartition(".")[0]
    while any(tgt.endswith(suffix) for suffix in COMPRESSION_SUFFIXES):
        tgt = tgt.rpartition(".")[0]
    if src == tgt:
        codes = [code or side for code, side in zip(text.langs, ("src", "tgt"), strict=True)]
        src, tgt = (f"{src}.{code}" for code in (codes if codes[0] != codes[1] else ["src", "tgt"]))
    return src, tgt
