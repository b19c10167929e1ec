"""Two text files -> a store: clean, segment, write, in blocks, so that memory does not grow with the corpus."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.cleaning import CleaningConfig, CleaningReport
from mtkit.corpus.order.prefetch import ahead
from mtkit.corpus.store import MANIFEST, Manifest, Side, SideSummary
from mtkit.corpus.store_writer import StoreWriter
from mtkit.errors import DataError
from mtkit.io.files import build_folder, hash_file, write_json
from mtkit.text.lines import count_lines, read_lines
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.tokenizer import Tokenizer, TokenizerPair

_BLOCK_PAIRS = 25_000  # pairs segmented at a time: enough to keep the threads busy
_BLOCK_CHARACTERS = 1 << 23  # but no more text than this, so that long lines do not fill the memory


@dataclass
class _Block:
    """Pairs that follow one another in the files: the normalised lines, and how many U+2581 they had before."""

    src: list[str]
    tgt: list[str]
    replaced: int


def binarise(
    src: Path,
    tgt: Path,
    folder: Path,
    tokenizers: TokenizerPair,
    cleaning: CleaningConfig | None,
    *,
    threads: int = 2,
) -> CleaningReport:
    """Turn two text files of equally many lines into a store; an existing one is replaced when the new one is whole.

    Args:
        src: source text, one sentence a line.
        tgt: its translation, line for line.
        folder: where the store comes to be.
        tokenizers: segment both sides.
        cleaning: which pairs to leave out; None keeps all, also blank ones (for validation).
        threads: that segment at the same time.

    Raises:
        DataError: unequal line counts, no lines at all, none left after cleaning, bytes that are not UTF-8.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    check_partners(src, tgt)
    report = CleaningReport()
    with build_folder(folder) as temporary:
        sizes: dict[Side, int] = {"src": tokenizers.src.vocab.size, "tgt": tokenizers.tgt.vocab.size}
        with StoreWriter(temporary, sizes) as writer, closing(ahead(_blocks(src, tgt, tokenizers), 1)) as blocks:
            for block in blocks:
                _write(block, writer, tokenizers=tokenizers, cleaning=cleaning, report=report, threads=threads)
        if not writer.samples:
            raise DataError(f"{src} and {tgt}: nothing is left to learn from: " + "; ".join(report.summary()))
        manifest = Manifest(
            samples=writer.samples,
            tokenizer=tokenizers.hash(),
            src=_side("src", src, tokenizers.src, writer),
            tgt=_side("tgt", tgt, tokenizers.tgt, writer),
            columns=writer.columns(),
            cleaning=None if cleaning is None else asdict(cleaning),
            report=report.as_json(),
        )
        write_json(temporary / MANIFEST, manifest.as_json())
    return report


def check_partners(src: Path, tgt: Path) -> int:
    """The number of lines of both files, which must be the same and not 0.

    Raises:
        DataError: it is not.
        MissingInputError, ReadWriteError: a file cannot be read.
    """
    counts = {src: count_lines(src), tgt: count_lines(tgt)}
    if counts[src] != counts[tgt]:
        short, long = sorted((src, tgt), key=lambda path: counts[path])
        raise DataError(
            f"{long}:{counts[short] + 1}: line has no partner, {short} ends at {counts[short]} and this file at "
            f"{counts[long]}; the two files must have equally many lines"
        )
    if not counts[src]:
        if src == tgt:
            raise DataError(f"{src}: the file is empty; a corpus needs at least one sentence")
        raise DataError(f"{src} and {tgt}: both are empty; a corpus needs at least one sentence pair")
    return counts[src]


def _blocks(src: Path, tgt: Path, tokenizers: TokenizerPair) -> Generator[_Block, None, None]:
    block, characters = _Block([], [], 0), 0
    for src_line, tgt_line in zip(read_lines(src), read_lines(tgt), strict=True):
        block.src.append(src_line)
        block.tgt.append(tgt_line)
        characters += len(src_line) + len(tgt_line)
        if len(block.src) == _BLOCK_PAIRS or characters > _BLOCK_CHARACTERS:
            yield _normalised(block, tokenizers)
            block, characters = _Block([], [], 0), 0
    if block.src:
        yield _normalised(block, tokenizers)


def _normalised(block: _Block, tokenizers: TokenizerPair) -> _Block:
    replaced = sum(line.count(SPACE_MARK) for lines in (block.src, block.tgt) for line in lines)
    src = [tokenizers.src.normalise(line) for line in block.src]
    tgt = [tokenizers.tgt.normalise(line) for line in block.tgt]
    return _Block(src, tgt, replaced)


def _write(
    block: _Block,
    writer: StoreWriter,
    *,
    tokenizers: TokenizerPair,
    cleaning: CleaningConfig | None,
    report: CleaningReport,
    threads: int,
) -> None:
    src = tokenizers.src.encode(block.src, threads=threads)
    tgt = tokenizers.tgt.encode(block.tgt, threads=threads)
    reasons = np.full(len(src), -1, dtype=np.int8)
    if cleaning is not None:
        reasons = cleaning.reasons(_lengths(block.src, src), _lengths(block.tgt, tgt))
    lines = np.arange(report.lines + 1, report.lines + len(src) + 1)
    report.add(reasons)
    report.replaced += block.replaced
    kept = reasons < 0
    if not kept.all():
        src, tgt = list(compress(src, kept)), list(compress(tgt, kept))
        block = _Block(list(compress(block.src, kept)), list(compress(block.tgt, kept)), 0)
    writer.append({"src": src, "tgt": tgt}, {"src": block.src, "tgt": block.tgt}, lines[kept])


def _lengths(lines: list[str], ids: list[list[int]]) -> NDArray[np.int64]:
    """[N] the number of pieces of each line, 0 for a line of white space."""
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    lengths[np.fromiter(map(str.isspace, lines), dtype=bool, count=len(lines))] = 0
    return lengths


def _side(side: Side, path: Path, tokenizer: Tokenizer, writer: StoreWriter) -> SideSummary:
    longest, line = writer.longest[side]
    return SideSummary(
        path=str(path),
        sha256=hash_file(path),
        vocab=tokenizer.vocab,
        pieces=writer.pieces[side],
        longest=longest,
        longest_line=line,
    )
