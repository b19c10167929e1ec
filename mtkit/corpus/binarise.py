"""Text files to a binary corpus: clean, segment and write in blocks, so that memory does not grow with the corpus.

A report counts the sentence pairs that cleaning dropped.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.config import CleaningConfig
from mtkit.corpus.order.loader import prefetch
from mtkit.corpus.store import SIDES, Manifest, SideStats, StoreWriter
from mtkit.display import count_of
from mtkit.errors import DataError
from mtkit.io.files import atomic_folder, hash_file
from mtkit.text.lines import Text, TextSubset, check_line_counts, numbered_lines, path_of, read_lines
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.tokenizer import Side
from mtkit.text.tokenizer import TokenizerPair

_BLOCK_PAIRS = 25_000  # pairs segmented at a time: enough to keep the threads busy
_BLOCK_CHARACTERS = 1 << 23  # upper limit of a block's text, so that long lines do not fill the memory
_NUM_EXAMPLES = 5  # line numbers reported for each reason
_EXPLANATIONS = {  # of the reasons for dropping a pair
    "empty": "one side is empty",
    "too_long": "one side exceeds cleaning.max_length",
    "ratio": "the length ratio exceeds cleaning.max_ratio",
    "filters": "corpus.filters found a fault",
}
REASONS = tuple(_EXPLANATIONS)


def rejection_reasons(
    config: CleaningConfig, src: NDArray[np.int64], tgt: NDArray[np.int64], *, prefixes: tuple[int, int] = (0, 0)
) -> NDArray[np.int8]:
    """The first reason for dropping each pair: its index in `REASONS`, or -1 for a pair that is kept.

    Args:
        src: [N] tokens of the source sides, without eos; 0 for a blank line.
        tgt: [N] tokens of the target sides, without eos; 0 for a blank line.
        prefixes: numbers of tokens before every source and every target, which count for `max_length` only.
    """
    longer, shorter = np.maximum(src, tgt), np.minimum(src, tgt)
    uneven = (longer > config.min_length_for_ratio) & (longer > config.max_ratio * shorter)
    longest = np.maximum(src + prefixes[0], tgt + prefixes[1])
    rejected = (shorter == 0, longest > config.max_length, uneven)  # in the order of REASONS
    return np.select(rejected, range(len(rejected)), default=-1).astype(np.int8)


@dataclass(frozen=True)
class PairSelection:
    """The pairs of a text that `corpus.filters` keeps.

    Attributes:
        inputs: what the selection depends on besides the text, as JSON values.
        is_kept: [lines of the files].
    """

    inputs: Mapping[str, Any]
    is_kept: NDArray[np.bool_]


@dataclass
class CleaningReport:
    """The numbers of pairs read, kept, and dropped for each reason.

    Attributes:
        examples: line numbers (from 1) of the first dropped pairs, by reason.
        replaced_chars: U+2581 characters in the text, which sentencepiece reserves and which were replaced.
        tokens: of the kept pairs, both sides.
    """

    lines: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    examples: dict[str, list[int]] = field(default_factory=lambda: {reason: [] for reason in REASONS})
    replaced_chars: int = 0
    tokens: int = 0
    unknown_tokens: int = 0

    @property
    def kept(self) -> int:
        """Pairs that went into the corpus."""
        return self.lines - sum(self.dropped.values())

    def add(self, reasons: NDArray[np.int8], line_numbers: NDArray[np.int64]) -> None:
        """Count the next block of pairs [N] of the file (see `rejection_reasons`)."""
        for number, reason in enumerate(REASONS):
            indices = np.flatnonzero(reasons == number)
            self.dropped[reason] += len(indices)
            missing = _NUM_EXAMPLES - len(self.examples[reason])
            self.examples[reason] += [int(line_numbers[index]) for index in indices[:missing]]
        self.lines += len(reasons)

    def summary(self) -> list[str]:
        """The report in sentences: one line, and one more for each reason that occurred."""
        lines = [f"{self.kept:,} of {count_of(self.lines, 'pair')} kept"]
        for reason, count in self.dropped.items():
            if count:
                numbers = ", ".join(map(str, self.examples[reason])) + (", ..." if count > _NUM_EXAMPLES else "")
                lines.append(f"{count:,} dropped because {_EXPLANATIONS[reason]}: line {numbers}")
        if self.replaced_chars:
            lines.append(f"{self.replaced_chars:,} characters U+2581 replaced")
        if self.unknown_tokens:
            lines.append(f"{self.unknown_tokens:,} of {self.tokens:,} tokens unknown")
        return lines

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"lines": self.lines, "kept": self.kept, **asdict(self)}


@dataclass
class _LineBlock:
    """Sentence pairs: the normalised lines, their numbers in the files, and the count of U+2581 before normalising."""

    src: list[str] = field(default_factory=list)
    tgt: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    replaced_chars: int = 0


def binarise(
    src: Text,
    tgt: Text,
    folder: Path,
    tokenizers: TokenizerPair,
    cleaning: CleaningConfig | None,
    *,
    selection: PairSelection | None = None,
    prefixes: tuple[Sequence[int], Sequence[int]] = ((), ()),
    threads: int = 2,
) -> CleaningReport:
    """Convert two parallel text files into a binary corpus; an existing one is replaced when the new one is complete.

    Args:
        src: source text, one sentence a line; a subset has the limit of `tgt`.
        tgt: its translation, line for line.
        cleaning: limits on sentence pairs; None keeps all, also blank ones.
        selection: pairs that filters keep; None: there are no filters.
        prefixes: ids that every source and every target begins with, see SourcePrefix.
        threads: number of segmentation threads.

    Raises:
        DataError: the prefix leaves no room for a source, unequal line counts, no lines at all, none left after
            cleaning, bytes that are not UTF-8.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    lines = check_line_counts(src, tgt)
    if selection is not None and len(selection.is_kept) != lines:
        raise DataError(f"{src} and {tgt}: changed while they were filtered; run again when they are complete")
    longest = max(map(len, prefixes))
    if cleaning is not None and longest >= cleaning.max_length:
        raise DataError(
            f"{src}: the prefix of this corpus has {longest} tokens, which leaves no room for text within "
            f"corpus.cleaning.max_length {cleaning.max_length}; shorten the prefix, or raise max_length"
        )
    report = CleaningReport()
    with atomic_folder(folder) as temporary:
        sizes: dict[Side, int] = {"src": tokenizers.src.vocab.size, "tgt": tokenizers.tgt.vocab.size}
        with StoreWriter(temporary, sizes) as writer, closing(prefetch(_blocks(src, tgt, tokenizers), 1)) as blocks:
            for block in blocks:
                _write(block, writer, report, tokenizers, cleaning, selection, prefixes=prefixes, threads=threads)
        if not writer.samples:
            raise DataError(f"{src} and {tgt}: no pairs are left after cleaning: " + "; ".join(report.summary()))
        stats: dict[Side, SideStats] = {}
        for side, path in zip(SIDES, map(path_of, (src, tgt)), strict=True):
            max_length, line = writer.max_lengths[side]
            stats[side] = SideStats(
                path=str(path),
                sha256=hash_file(path),
                vocab=tokenizers.of(side).vocab,
                num_tokens=writer.num_tokens[side],
                max_length=max_length,
                max_length_line=line,
            )
        Manifest(
            samples=writer.samples,
            tokenizer=tokenizers.hash(),
            src=stats["src"],
            tgt=stats["tgt"],
            columns=writer.columns(),
            cleaning=None if cleaning is None else {**asdict(cleaning), **(selection.inputs if selection else {})},
            report=report.as_json(),
            prefix=tuple(prefixes[0]),
            tgt_prefix=tuple(prefixes[1]),
            limit=src.limit if isinstance(src, TextSubset) else None,
        ).write(temporary)
    return report


def _blocks(src: Text, tgt: Text, tokenizers: TokenizerPair) -> Generator[_LineBlock, None, None]:
    block, characters = _LineBlock(), 0
    for (number, src_line), tgt_line in zip(numbered_lines(src), read_lines(tgt), strict=True):
        block.src.append(tokenizers.prepare("src", src_line))
        block.tgt.append(tokenizers.prepare("tgt", tgt_line))
        block.numbers.append(number)
        block.replaced_chars += src_line.count(SPACE_MARK) + tgt_line.count(SPACE_MARK)
        characters += len(src_line) + len(tgt_line)
        if len(block.src) == _BLOCK_PAIRS or characters > _BLOCK_CHARACTERS:
            yield block
            block, characters = _LineBlock(), 0
    if block.src:
        yield block


def _write(
    block: _LineBlock,
    writer: StoreWriter,
    report: CleaningReport,
    tokenizers: TokenizerPair,
    cleaning: CleaningConfig | None,
    selection: PairSelection | None,
    *,
    prefixes: tuple[Sequence[int], Sequence[int]],
    threads: int,
) -> None:
    """Segment and clean a block, and write the pairs that are left."""
    src, tgt = tokenizers.encode_pairs(block.src, block.tgt, threads=threads)
    reasons = np.full(len(src), -1, dtype=np.int8)
    if cleaning is not None:
        lengths = _lengths(block.src, src), _lengths(block.tgt, tgt)
        reasons = rejection_reasons(cleaning, *lengths, prefixes=(len(prefixes[0]), len(prefixes[1])))
    src, tgt = (
        [[*prefix, *ids] for ids in side] if prefix else side for prefix, side in zip(prefixes, (src, tgt), strict=True)
    )
    numbers = np.array(block.numbers)
    if selection is not None:
        reasons[~selection.is_kept[numbers - 1]] = REASONS.index("filters")
    report.add(reasons, numbers)
    report.replaced_chars += block.replaced_chars
    is_kept = reasons < 0
    src, tgt = list(compress(src, is_kept)), list(compress(tgt, is_kept))
    src_texts, tgt_texts = list(compress(block.src, is_kept)), list(compress(block.tgt, is_kept))
    report.tokens += sum(map(len, [*src, *tgt]))
    report.unknown_tokens += sum(ids.count(tokenizers.src.vocab.unk) for ids in src)
    report.unknown_tokens += sum(ids.count(tokenizers.tgt.vocab.unk) for ids in tgt)
    writer.append({"src": src, "tgt": tgt}, {"src": src_texts, "tgt": tgt_texts}, numbers[is_kept])


def _lengths(lines: list[str], ids: list[list[int]]) -> NDArray[np.int64]:
    """[N] the number of tokens of each line, 0 for a line of white space."""
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    lengths[np.fromiter(map(str.isspace, lines), dtype=bool, count=len(lines))] = 0
    return lengths
