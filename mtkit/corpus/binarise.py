"""Text files to a binary corpus: clean, segment and write in blocks, so that memory does not grow with the corpus."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.cleaning import CleaningReport, rejection_reasons
from mtkit.corpus.config import CleaningConfig
from mtkit.corpus.order.prefetch import prefetch
from mtkit.corpus.store import MANIFEST, Manifest, SideStats
from mtkit.corpus.store_writer import StoreWriter
from mtkit.errors import DataError
from mtkit.io.files import atomic_folder, hash_file
from mtkit.io.records import write_record
from mtkit.text.lines import Text, TextSubset, check_line_counts, line_numbers, path_of, read_lines
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.tokenizer import Side, Tokenizer
from mtkit.text.tokenizer import TokenizerPair

_BLOCK_PAIRS = 25_000  # pairs segmented at a time: enough to keep the threads busy
_BLOCK_CHARACTERS = 1 << 23  # upper limit of a block's text, so that long lines do not fill the memory


@dataclass
class _LineBlock:
    """Sentence pairs: the normalised lines, their numbers in the files, and the count of U+2581 before normalising."""

    src: list[str]
    tgt: list[str]
    numbers: list[int]
    replaced_chars: int


@dataclass(frozen=True)
class _Segmentation:
    """Arguments of `binarise` that determine the ids of a line."""

    tokenizers: TokenizerPair
    cleaning: CleaningConfig | None
    prefix: tuple[int, ...]
    threads: int


def binarise(
    src: Text,
    tgt: Text,
    folder: Path,
    tokenizers: TokenizerPair,
    cleaning: CleaningConfig | None,
    *,
    prefix: Sequence[int] = (),
    threads: int = 2,
) -> CleaningReport:
    """Convert two parallel text files into a binary corpus; an existing one is replaced when the new one is complete.

    Args:
        src: source text, one sentence a line; a subset has the limit of `tgt`.
        tgt: its translation, line for line.
        cleaning: filters on sentence pairs; None keeps all, also blank ones (for validation).
        prefix: ids that every source begins with, see SourcePrefix.
        threads: number of segmentation threads.

    Raises:
        DataError: the prefix leaves no room for a source, unequal line counts, no lines at all, none left after
            cleaning, bytes that are not UTF-8.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    check_line_counts(src, tgt)
    if cleaning is not None and len(prefix) >= cleaning.max_length:
        raise DataError(
            f"{src}: the prefix of this corpus has {len(prefix)} tokens, which leaves no room for text within "
            f"corpus.cleaning.max_length {cleaning.max_length}; shorten the prefix, or raise max_length"
        )
    segmentation = _Segmentation(tokenizers, cleaning, tuple(prefix), threads)
    report = CleaningReport()
    with atomic_folder(folder) as temporary:
        sizes: dict[Side, int] = {"src": tokenizers.src.vocab.size, "tgt": tokenizers.tgt.vocab.size}
        with StoreWriter(temporary, sizes) as writer, closing(prefetch(_blocks(src, tgt, tokenizers), 1)) as blocks:
            for block in blocks:
                _write(block, writer, segmentation, report)
        if not writer.samples:
            raise DataError(f"{src} and {tgt}: no pairs are left after cleaning: " + "; ".join(report.summary()))
        manifest = Manifest(
            samples=writer.samples,
            tokenizer=tokenizers.hash(),
            src=_side_stats("src", path_of(src), tokenizers.src, writer),
            tgt=_side_stats("tgt", path_of(tgt), tokenizers.tgt, writer),
            columns=writer.columns(),
            cleaning=None if cleaning is None else asdict(cleaning),
            report=report.as_json(),
            prefix=tuple(prefix),
            limit=src.limit if isinstance(src, TextSubset) else None,
        )
        write_record(temporary / MANIFEST, manifest.as_json())
    return report


def _blocks(src: Text, tgt: Text, tokenizers: TokenizerPair) -> Generator[_LineBlock, None, None]:
    block, characters = _LineBlock([], [], [], 0), 0
    numbers = line_numbers(src)
    for src_line, tgt_line in zip(read_lines(src), read_lines(tgt), strict=True):
        block.src.append(src_line)
        block.tgt.append(tgt_line)
        block.numbers.append(next(numbers))
        characters += len(src_line) + len(tgt_line)
        if len(block.src) == _BLOCK_PAIRS or characters > _BLOCK_CHARACTERS:
            yield _normalise(block, tokenizers)
            block, characters = _LineBlock([], [], [], 0), 0
    if block.src:
        yield _normalise(block, tokenizers)


def _normalise(block: _LineBlock, tokenizers: TokenizerPair) -> _LineBlock:
    replaced_chars = sum(line.count(SPACE_MARK) for lines in (block.src, block.tgt) for line in lines)
    src = [tokenizers.prepare("src", line) for line in block.src]
    tgt = [tokenizers.prepare("tgt", line) for line in block.tgt]
    return _LineBlock(src, tgt, block.numbers, replaced_chars)


def _write(block: _LineBlock, writer: StoreWriter, segmentation: _Segmentation, report: CleaningReport) -> None:
    tokenizers, threads, cleaning = segmentation.tokenizers, segmentation.threads, segmentation.cleaning
    src, tgt = tokenizers.encode_pairs(block.src, block.tgt, threads=threads)
    reasons = np.full(len(src), -1, dtype=np.int8)
    prefix = segmentation.prefix
    if cleaning is not None:
        lengths = _lengths(block.src, src), _lengths(block.tgt, tgt)
        reasons = rejection_reasons(cleaning, *lengths, prefix=len(prefix))
    if prefix:
        src = [[*prefix, *ids] for ids in src]
    numbers = np.array(block.numbers)
    report.add(reasons, numbers)
    report.replaced_chars += block.replaced_chars
    is_kept = reasons < 0
    if not is_kept.all():
        src, tgt = list(compress(src, is_kept)), list(compress(tgt, is_kept))
        block = _LineBlock(list(compress(block.src, is_kept)), list(compress(block.tgt, is_kept)), [], 0)
    report.tokens += sum(map(len, [*src, *tgt]))
    report.unknown_tokens += sum(ids.count(tokenizers.src.vocab.unk) for ids in src)
    report.unknown_tokens += sum(ids.count(tokenizers.tgt.vocab.unk) for ids in tgt)
    writer.append({"src": src, "tgt": tgt}, {"src": block.src, "tgt": block.tgt}, numbers[is_kept])


def _lengths(lines: list[str], ids: list[list[int]]) -> NDArray[np.int64]:
    """[N] the number of tokens of each line, 0 for a line of white space."""
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    lengths[np.fromiter(map(str.isspace, lines), dtype=bool, count=len(lines))] = 0
    return lengths


def _side_stats(side: Side, path: Path, tokenizer: Tokenizer, writer: StoreWriter) -> SideStats:
    max_length, line_number = writer.max_lengths[side]
    return SideStats(
        path=str(path),
        sha256=hash_file(path),
        vocab=tokenizer.vocab,
        num_tokens=writer.num_tokens[side],
        max_length=max_length,
        max_length_line=line_number,
    )
