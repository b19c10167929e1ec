"""Texts whose lines are shifted: line n of one is the translation of line n + 1, or n + 2, of the other.

The lengths of translations are correlated (Gale and Church 1993, https://aclanthology.org/J93-1004). If they are much
more so at another offset, a lexicon (IBM Model 1) decides: it predicts the target words of other lines only at the
offset at which the lines are translations.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.ibm_model1 import alignment_pairs, expectation_maximisation
from mtkit.corpus.order.ragged import Ragged
from mtkit.display import count_of
from mtkit.errors import DataError
from mtkit.text.lines import read_lines

WINDOW = 1000  # lines at the beginning and at the end of the files
MIN_LINES = 100  # fewer say too little
MAX_SHIFT = 3  # lines
# Corpora of 20 language pairs: the right offset has a correlation of 0.61 to 0.98, others of at most 0.43; the lexicon
# gains 0.08 to 1.3 nats a word at the right offset, and at most 0.25, with a difference of 0.3, at others.
MIN_CORRELATION_GAIN, MIN_LEXICON_GAIN = 0.3, 0.05
MAX_WORDS, MAX_TOKENS = 2000, 40  # of a side; of a line
MIN_TOKENS_OF_LINE = 3  # a text with fewer on average is compared by its characters
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W\d_]+|\d+|[^\w\s]")

Lines = Sequence[str]
S = TypeVar("S", Sequence[str], Sequence[list[int]], NDArray[np.float64])


def forbid_shifted_lines(src: Path, tgt: Path) -> None:
    """Refuse a text at whose beginning or end the translation of a line is some lines further.

    Raises:
        DataError: it is shifted; names the line where the translation of the first or last line is.
        MissingInputError, ReadWriteError: as `read_lines`.
    """
    first: list[tuple[str, str]] = []
    last: deque[tuple[str, str]] = deque(maxlen=WINDOW)
    for pair in zip(read_lines(src), read_lines(tgt), strict=False):
        if len(first) < WINDOW:
            first.append(pair)
        last.append(pair)
    for window, place in ((first, "from the first line on"), (last, "towards the end")):
        if shift := find_shift(*map(list, zip(*window, strict=True))) if window else 0:
            ahead, behind = (tgt, src) if shift > 0 else (src, tgt)
            lines = count_of(abs(shift), "line")
            where = "" if window is first else f"; mtkit check {src} {tgt} names the place"
            raise DataError(
                f"{src} and {tgt}: shifted by {lines} {place}: the translation of line n of {behind.name} is line "
                f"n + {abs(shift)} of {ahead.name}; remove {lines} from {ahead}, or add what {behind} lacks{where}"
            )


def find_shift(src: Lines, tgt: Lines) -> int:
    """Return k if tgt[n + k] is the translation of src[n], and not tgt[n]; 0 if that is not sure."""
    best = best_offset(*(np.array([float(len(line.strip())) for line in side]) for side in (src, tgt)))
    if best == 0:
        return 0
    equal = sum(one == other for one, other in zip(*_aligned(src, tgt, best), strict=True))
    if 2 * equal > len(src):  # the lines of a dialogue, which answer each other
        return 0
    (src_rows, num_sources), (tgt_rows, num_targets) = _token_ids(src), _token_ids(tgt)
    gains = [
        _lexicon_gain(*_aligned(src_rows, tgt_rows, offset), num_sources=num_sources, num_targets=num_targets)
        for offset in (best, 0)
    ]
    return best if gains[0] - gains[1] > MIN_LEXICON_GAIN else 0


def best_offset(src_lengths: NDArray[np.float64], tgt_lengths: NDArray[np.float64]) -> int:
    """The offset at which the lengths of lines [N] are correlated much more than those of opposite lines; 0: none."""
    offsets = [offset for offset in range(-MAX_SHIFT, MAX_SHIFT + 1) if len(src_lengths) - abs(offset) >= MIN_LINES]
    correlation = dict.fromkeys(offsets, 0.0)  # of the logarithms of lengths; 0 if one side has one length only
    for offset in offsets:
        both = np.stack(_aligned(src_lengths, tgt_lengths, offset))  # [2, N]
        logs = np.log(both[:, (both > 0).all(axis=0)])
        if logs.shape[1] >= MIN_LINES // 2 and (logs.std(axis=1) > 0).all():
            correlation[offset] = float(np.corrcoef(logs)[0, 1])
    best = max(offsets, key=lambda offset: correlation[offset], default=0)
    return best if best and correlation[best] - correlation[0] >= MIN_CORRELATION_GAIN else 0


def split_tokens(line: str) -> list[str]:
    """Words, numbers and signs of a line in lower case; of scripts without spaces, the characters."""
    return _TOKEN.findall(line.lower())


def _aligned(src: S, tgt: S, offset: int) -> tuple[S, S]:
    """The lines of both sides that are opposite each other at an offset."""
    count = len(src) - abs(offset)
    first, second = max(0, -offset), max(0, offset)
    return src[first : first + count], tgt[second : second + count]


def _token_ids(lines: Lines) -> tuple[Sequence[list[int]], int]:
    """The ids of the tokens of each line that occur in two lines, and their number."""
    tokens = [split_tokens(line)[:MAX_TOKENS] for line in lines]
    if sum(map(len, tokens)) < MIN_TOKENS_OF_LINE * len(lines):
        tokens = [list(line.strip())[:MAX_TOKENS] for line in lines]
    counts = Counter(itertools.chain.from_iterable(map(set, tokens)))
    known = [token for token, count in counts.most_common(MAX_WORDS) if count > 1]
    ids = {token: number for number, token in enumerate(known)}
    rows = [[ids[token] for token in line if token in ids] for line in tokens]
    return rows, len(ids)


def _lexicon_gain(src: Sequence[list[int]], tgt: Sequence[list[int]], *, num_sources: int, num_targets: int) -> float:
    """Nats by which a lexicon of every second line predicts a word of the other lines better than the word's frequency.

    Lines are ids of words, below `num_sources` and `num_targets`.
    """
    rows = [pair for pair in zip(src, tgt, strict=True) if all(pair)]
    if len(rows) < MIN_LINES // 2:
        return 0.0
    halves = []
    for half in (rows[::2], rows[1::2]):
        src_rows, tgt_rows = (Ragged.of(side, dtype=np.int64) for side in zip(*half, strict=True))
        halves.append(alignment_pairs(src_rows, tgt_rows, eos=num_sources, num_targets=num_targets))
    known, others = halves
    keys, index = np.unique(known.key, return_inverse=True)
    probability = expectation_maximisation(keys // num_targets, [(index, known.start)])
    counts = np.bincount([token for _, row in rows[::2] for token in row], minlength=num_targets) + 0.5
    frequency = counts / counts.sum()
    # p(word) of each target position: the mean of the lexicon over its source words, half and half with the frequency
    found = np.minimum(np.searchsorted(keys, others.key), len(keys) - 1)
    lexical = np.where(keys[found] == others.key, probability[found], 0)
    mean = np.add.reduceat(lexical, others.start) / np.diff(others.start, append=len(lexical))
    unigram = frequency[others.key[others.start] % num_targets]
    return float(np.log(0.5 + 0.5 * mean / unigram).mean())
