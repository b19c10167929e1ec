"""Files of train, valid and test, split off a parallel corpus and kept in a folder with split.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO

from mtkit.corpus.line_shift import forbid_shifted_lines
from mtkit.corpus.split import GIVE_HELD_OUT, HeldOutLines, Part, SplitLimits, TextFindings, hash_pairs, read_pairs
from mtkit.display import count_of
from mtkit.errors import DataError, UsageError
from mtkit.io.files import atomic_folder, changed_files, hash_file, hash_files
from mtkit.io.records import Json, read_record, write_record
from mtkit.text.lines import check_line_counts

RECORD = "split.json"
FEW_PAIRS = 1000  # for training; 1,812 captions give BLEU 12 on other captions (docs/evidence.md)
Pair = tuple[Path, Path]


@dataclass(frozen=True)
class ParallelText:
    """A parallel corpus to be split.

    Attributes:
        langs: codes of both, the suffixes of the new files.
        docid: file with the name of each line's document; None: lines are split one by one.
        held_out: files of valid and test that the user has; these are copied instead of split off.
    """

    src: Path
    tgt: Path
    langs: tuple[str, str]
    docid: Path | None
    held_out: Mapping[Part, Pair]

    @cached_property
    def inputs(self) -> Json:
        """Paths and hashes of all files."""
        files = [self.src, self.tgt, *([self.docid] if self.docid else []), *sum(self.held_out.values(), ())]
        return {str(path.resolve()): hash_file(path) for path in files}


@dataclass(frozen=True)
class SplitReport:
    """Result of a split.

    Attributes:
        counts: pairs of each part, and `duplicates`: pairs left out because a side is held out already.
    """

    counts: Mapping[str, int]
    findings: TextFindings

    def describe(self) -> list[str]:
        """Return the report as sentences."""
        counts = self.counts
        lines = [*self.findings.describe(), ", ".join(f"{part} {counts[part]:,}" for part in PARTS) + " pairs"]
        if counts["train"] < FEW_PAIRS:
            pairs = count_of(counts["train"], "pair")
            lines.append(f"warning: {pairs} to learn from; expect poor translations of other text")
        if counts["duplicates"]:
            lines.append(f"{count_of(counts['duplicates'], 'pair')} left out, since a side is in valid or test")
        return lines


PARTS: tuple[Part, ...] = ("train", "valid", "test")
HELD_OUT_FIRST: tuple[Part, ...] = ("valid", "test", "train")
_ELSEWHERE = "write the recipe of these texts elsewhere: mtkit new SRC TGT -o OTHER.yaml, then mtkit run OTHER.yaml"


def split_corpus(corpus: ParallelText, folder: Path) -> SplitReport:
    """Write train, valid and test into a folder, unless they are there and their inputs are unchanged.

    A pair of the text keeps its part when lines were added, since the limits of the first split are kept.

    Raises:
        UsageError: the folder holds the split of other files, or files that mtkit did not write.
        DataError: the corpus is unusable or too small, or the user changed a file of the split.
        ReadWriteError: the folder cannot be written.
    """
    for src, tgt in ((corpus.src, corpus.tgt), *corpus.held_out.values()):
        check_line_counts(src, tgt)
    inputs = corpus.inputs
    record, limits = _read_split(folder, inputs), None
    if record is not None:
        if record["inputs"] == inputs and not changed_files(folder, record["files"]):
            return SplitReport(record["counts"], TextFindings(**record["findings"]))
        _require_only_own_files(folder, record)
        limits = SplitLimits(**record["limits"])
    for src, tgt in ((corpus.src, corpus.tgt), *corpus.held_out.values()):
        forbid_shifted_lines(src, tgt)
    hashed = hash_pairs(corpus.src, corpus.tgt, corpus.docid)
    if limits is None:
        limits = SplitLimits(0, 0) if len(corpus.held_out) == 2 else hashed.limits()
    positions = hashed.positions(limits)
    parts = [_part(limits, float(position), corpus) for position in positions]
    with atomic_folder(folder) as temporary:
        counts = _write(corpus, parts, temporary, min_characters=limits.min_characters)
        findings = replace(
            hashed.findings,
            unusual=int((positions > 1).sum()),
            limits="" if len(corpus.held_out) == 2 else limits.of_lines(),
        )
        report = SplitReport(counts, findings)
        _require_pairs(corpus, report.counts)
        files = hash_files(temporary)
        write_record(
            temporary / RECORD,
            {
                "inputs": inputs,
                "limits": asdict(limits),
                "counts": dict(report.counts),
                "findings": asdict(report.findings),
                "files": files,
            },
        )
    return report


def changed_texts(corpus: ParallelText, folder: Path) -> list[Path]:
    """Return the texts whose content is not that of the split in a folder; none if there is no such split.

    Raises:
        UsageError: the folder holds the split of other files, or files that mtkit did not write.
        DataError: the user changed a file of the split.
        ReadWriteError: a text cannot be read.
    """
    record = _read_split(folder, corpus.inputs)
    if record is None:
        return []
    return [Path(name) for name, digest in corpus.inputs.items() if record["inputs"][name] != digest]


def _read_split(folder: Path, inputs: Json) -> Json | None:
    """Return the record of the split that a folder holds; None if there is no folder, or an empty one."""
    if not (folder / RECORD).is_file():
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise UsageError(f"{folder}: exists and is no split of mtkit; {_ELSEWHERE}")
        return None
    record = read_record(folder / RECORD, remedy=f"delete the folder {folder}, and it is made again")
    if record["inputs"].keys() != inputs.keys():
        others = " and ".join(list(record["inputs"])[:2])
        raise UsageError(f"{folder}: holds the split of {others}; {_ELSEWHERE}")
    for name in changed_files(folder, record["files"]):
        if (folder / name).exists():
            raise DataError(
                f"{folder / name}: changed since mtkit wrote it; delete it, and it is written again, or use it as it "
                "is: mtkit run with the recipe instead of the two texts"
            )
    return record


def _require_only_own_files(folder: Path, record: Json) -> None:
    for path in sorted(folder.iterdir()):
        if path.name not in record["files"] and path.name != RECORD:
            raise UsageError(f"{path}: not written by mtkit; move it away, since the split is written again")


def _require_pairs(corpus: ParallelText, counts: Mapping[str, int]) -> None:
    for part in PARTS:
        if not counts[part]:
            src, tgt = corpus.src, corpus.tgt
            raise DataError(
                f"{src} and {tgt}: no pair is left for {part}, since {counts['duplicates']:,} pairs "
                f"have a side that is in valid or test; give text with more different lines, or {GIVE_HELD_OUT}"
            )


def _part(limits: SplitLimits, position: float, corpus: ParallelText) -> Part:
    """Return the part of a pair; it stays in train if the user has files of that part."""
    part = limits.part_of(position)
    return "train" if part in corpus.held_out else part


def _write(corpus: ParallelText, parts: list[Part], folder: Path, *, min_characters: int) -> dict[str, int]:
    """Write the files of all parts, held-out ones first, and return their counts."""
    counts = Counter(dict.fromkeys((*PARTS, "duplicates"), 0))
    held_out = HeldOutLines(set(), set(), min_characters)
    with ExitStack() as stack:
        files = {
            (part, lang): stack.enter_context((folder / f"{part}.{lang}").open("w", encoding="utf-8", newline="\n"))
            for part in PARTS
            for lang in corpus.langs
        }
        for part, paths in corpus.held_out.items():
            for src, tgt in read_pairs(*paths):
                held_out.add(src, tgt)
                _write_pair(files, part, corpus.langs, (src, tgt), counts)
        for part, pair in _held_out_first(parts, corpus):
            is_kept = not held_out.overlaps(*pair) if part == "train" else held_out.add(*pair)
            if is_kept:
                _write_pair(files, part, corpus.langs, pair, counts)
            else:
                counts["duplicates"] += 1
    return dict(counts)


def _held_out_first(parts: list[Part], corpus: ParallelText) -> Iterator[tuple[Part, tuple[str, str]]]:
    """Yield all pairs with their parts, those of train last; the files are read once for each part."""
    for current in HELD_OUT_FIRST:
        for part, pair in zip(parts, read_pairs(corpus.src, corpus.tgt), strict=True):
            if part == current:
                yield part, pair


def _write_pair(
    files: Mapping[tuple[Part, str], IO[str]],
    part: Part,
    langs: tuple[str, str],
    pair: tuple[str, str],
    counts: Counter[str],
) -> None:
    for lang, line in zip(langs, pair, strict=True):
        files[part, lang].write(f"{line}\n")
    counts[part] += 1
