"""Places where the lines of two texts are not opposite their translations: dropped lines, moved blocks, other text.

A lexicon (IBM Model 1) of one half of some lines tells for each line of the other half how likely the words opposite
are its translation: a log-likelihood ratio against the words of any line, with that of the lengths (Gale and Church
1993, https://aclanthology.org/J93-1004). Where its sum falls (CUSUM, Page 1954, https://doi.org/10.2307/2333009), the
translations are looked for in the lines around.
"""

from __future__ import annotations

import tempfile
import weakref
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.ibm_model1 import alignment_pairs, expectation_maximisation
from mtkit.corpus.line_shift import best_offset, split_tokens
from mtkit.corpus.order.ragged import Ragged, lengths_to_offsets
from mtkit.io.files import translate_write_errors

MAX_TOKENS = 40  # of a line; the others say little more
MAX_CHARACTERS = 4000  # of a line, of which tokens are taken
SAMPLE_LINES, CHUNK_LINES = 20_000, 500  # of the lexicon; lines of it that stand together
TRACKED_LINES = 250  # whose offset is guessed from their lengths
MIN_LINES = 100  # fewer say too little
NUM_TRANSLATIONS, MIN_PROB = 3, 0.08  # of a word
MIN_COUNT = 2  # of a word in the sample
BLOCK = 4000  # lines scored at a time
MAX_LINE_SCORE = 4.0  # nats; one odd line says little
ALARM = 25.0  # nats against the lines opposite, until their translations are looked for
CERTAIN = 20.0  # nats by which another offset must be better
REACH = 2000  # lines before and behind in which translations are looked for
WINDOW = 40  # lines whose translations are looked for
MAX_DELAY = 8  # lines by which a fall of the sum may begin too early
MAX_LOST = 20  # segments without translations that are compared with each other


def hash_token(token: str) -> int:
    """32 bits of a token, the same in all processes."""
    return zlib.crc32(token.encode(errors="surrogatepass"))


def hash_tokens(lines: Sequence[str]) -> Ragged:
    """Hashes of the first words and signs of each line, uint32."""
    tokens = (split_tokens(line[:MAX_CHARACTERS])[:MAX_TOKENS] for line in lines)
    return Ragged.of([list(map(hash_token, each)) for each in tokens], np.uint32)


def hash_words(lines: Sequence[str]) -> Ragged:
    """Hashes of all words and numbers of each line, without signs, uint32."""
    return Ragged.of(
        [[hash_token(token) for token in split_tokens(line) if token.isalnum()] for line in lines], np.uint32
    )


class TokenLines:
    """Hashes of the words and signs of each line, in a temporary file, so that memory does not grow with the text."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the object)
        weakref.finalize(self, self._file.close)
        self._lengths: list[NDArray[np.int64]] = []
        self.characters: list[NDArray[np.float32]] = []

    def append(self, lines: Sequence[str]) -> Ragged:
        """Add lines; return the hashes of their tokens, uint32.

        Raises:
            ReadWriteError: the folder of temporary files is full.
        """
        rows = hash_tokens(lines)
        with translate_write_errors(Path(tempfile.gettempdir())):
            self._file.write(rows.flat.tobytes())
        self._lengths.append(rows.lengths)
        self.characters.append(np.fromiter(map(len, lines), dtype=np.float32, count=len(lines)))
        return rows

    def read(self) -> TokenSide:
        """All lines, memory-mapped."""
        self._file.flush()
        lengths = np.concatenate([np.empty(0, dtype=np.int64), *self._lengths])
        empty = not lengths.sum()
        flat: Any = np.empty(0, np.uint32) if empty else np.memmap(self._file, dtype=np.uint32, mode="r")
        sizes = np.concatenate([np.empty(0, dtype=np.float32), *self.characters])
        return TokenSide(Ragged(flat, lengths_to_offsets(lengths)), np.log1p(sizes))


@dataclass(frozen=True)
class TokenSide:
    """The lines of a text: hashes of tokens, and logarithms of the numbers of characters [N]."""

    tokens: Ragged
    logs: NDArray[np.float32]

    def take(self, rows: NDArray[np.int64]) -> TokenSide:
        """The lines [M] of these numbers."""
        return TokenSide(self.tokens.take(rows), self.logs[rows])

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class AlignedLines:
    """Consecutive source lines whose translations are at one offset.

    Attributes:
        start, end: the lines from `start`, before `end`, counted from 0.
        offset: the translation of line n is line n + offset of the target; None: none was found.
    """

    start: int
    end: int
    offset: int | None


@dataclass(frozen=True)
class _Half:
    """Words of a lexicon of half of the lines: learned from that half, and measured on the other one.

    Attributes:
        words: [V] hashes, sorted.
        translations: [V + 1, NUM_TRANSLATIONS]; the last row is of all other words, whose translation is themselves.
        hit, miss: [V + 1] nats if one of the translations is opposite, and if none is.
    """

    words: NDArray[np.uint32]
    translations: NDArray[np.uint32]
    hit: NDArray[np.float32]
    miss: NDArray[np.float32]

    def options(self, flat: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """The row of each word [S], and its translations [S, NUM_TRANSLATIONS]; unused ones are 0."""
        row = np.searchsorted(self.words, flat)
        row[self.words[np.minimum(row, len(self.words) - 1)] != flat] = len(self.words)
        options = self.translations[row]
        is_unknown = row == len(self.words)
        options[is_unknown, 0] = flat[is_unknown]
        return row, options

    def are_opposite(self, src: Ragged, tgt: Ragged) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The row of each source word [S], and whether one of its translations is in the same line of the target."""
        row, options = self.options(src.flat)
        keys = _line_keys(options.T, np.repeat(np.arange(len(src)), src.lengths))
        known = np.sort(_line_keys(tgt.flat, np.repeat(np.arange(len(tgt)), tgt.lengths)))
        return row, (_contains(known, keys) & (options.T != 0)).any(axis=0)


def _line_keys(tokens: NDArray[np.uint32], lines: NDArray[np.int64]) -> NDArray[np.int64]:
    return (lines << 32) | tokens.astype(np.int64)


def _contains(ordered: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(keys.shape, dtype=bool)
    return np.asarray(ordered[np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)] == keys)


class LineScorer:
    """Nats for two lines being translations of each other, rather than any two lines of the texts."""

    def __init__(self, src: TokenSide, tgt: TokenSide) -> None:
        count = min(len(src), len(tgt))
        src_rows = sample_rows(count)
        tgt_rows = src_rows + _offsets_by_length(src, tgt)[src_rows // TRACKED_LINES]
        is_inside = (tgt_rows >= 0) & (tgt_rows < len(tgt))
        src_rows, tgt_rows = src_rows[is_inside], tgt_rows[is_inside]
        src, tgt = src.take(src_rows), tgt.take(tgt_rows)
        difference = tgt.logs - src.logs
        others = np.roll(tgt.logs, len(tgt) // 2) - src.logs
        self._lengths = (
            np.median(difference),
            max(0.1, _spread(difference)),
            np.median(others),
            max(0.2, _spread(others)),
        )
        parity = src_rows % 2
        # Line n is scored by the lexicon of the lines of the other parity, since in its own half a rare word seems to
        # be translated by whatever stands opposite.
        self._halves = [
            _learn_half(src, tgt, np.flatnonzero(parity != half), np.flatnonzero(parity == half)) for half in (0, 1)
        ]

    def opposite(
        self, src: TokenSide, tgt: TokenSide, lines: NDArray[np.int64], limit: float = MAX_LINE_SCORE
    ) -> NDArray[np.float32]:
        """[N] nats of each pair of lines opposite each other.

        Args:
            lines: [N] numbers of the source lines.
            limit: largest absolute value of a score.
        """
        scores = np.zeros(len(src), dtype=np.float32)
        for number, half in enumerate(self._halves):
            rows = np.flatnonzero(lines % 2 == number)
            if not len(rows):
                continue
            ours = src.tokens.take(rows)
            row, is_hit = half.are_opposite(ours, tgt.tokens.take(rows))
            nats = np.where(is_hit, half.hit[row], half.miss[row])
            scores[rows] = np.bincount(np.repeat(np.arange(len(rows)), ours.lengths), nats, minlength=len(rows))
        scores += self._length_nats(tgt.logs - src.logs)
        scores[(src.tokens.lengths == 0) | (tgt.tokens.lengths == 0)] = 0
        return np.clip(scores, -limit, limit)

    def table(self, src: TokenSide, tgt: TokenSide, lines: NDArray[np.int64]) -> NDArray[np.float32]:
        """[N, M] nats of each of N source lines with each of M target lines; `lines` as in `opposite`."""
        scores = np.zeros((len(src), len(tgt)), dtype=np.float32)
        tgt_line = np.repeat(np.arange(len(tgt)), tgt.tokens.lengths)
        for number, half in enumerate(self._halves):
            rows = np.flatnonzero(lines % 2 == number)
            ours = src.tokens.take(rows)
            row, options = half.options(ours.flat)
            known = np.unique(options)
            index = np.minimum(np.searchsorted(known, tgt.tokens.flat), max(0, len(known) - 1))
            is_known = known[index] == tgt.tokens.flat if len(known) else np.zeros(len(index), dtype=bool)
            has = np.zeros((len(known), len(tgt)), dtype=bool)
            has[index[is_known], tgt_line[is_known]] = True
            if len(known) and known[0] == 0:
                has[0] = False
            is_hit = has[np.searchsorted(known, options)].any(axis=1) if len(known) else np.zeros((0, len(tgt)), bool)
            nats = np.where(is_hit, half.hit[row][:, None], half.miss[row][:, None])  # [S, M]
            total = np.concatenate([np.zeros((1, len(tgt)), np.float32), np.cumsum(nats, axis=0)])
            scores[rows] = total[ours.offsets[1:]] - total[ours.offsets[:-1]]
        scores += self._length_nats(tgt.logs[None, :] - src.logs[:, None])
        scores[src.tokens.lengths == 0] = 0
        scores[:, tgt.tokens.lengths == 0] = 0
        return np.clip(scores, -MAX_LINE_SCORE, MAX_LINE_SCORE)

    def _length_nats(self, difference: NDArray[np.float32]) -> NDArray[np.float32]:
        mean, spread, other_mean, other_spread = self._lengths
        nats = (
            np.log(other_spread / spread)
            + (((difference - other_mean) / other_spread) ** 2 - ((difference - mean) / spread) ** 2) / 2
        )
        return np.asarray(np.clip(nats, -2, 2), dtype=np.float32)


def sample_rows(count: int) -> NDArray[np.int64]:
    """At most SAMPLE_LINES lines of `count`, evenly spaced in groups of CHUNK_LINES."""
    if count <= SAMPLE_LINES:
        return np.arange(count)
    starts = np.linspace(0, count - CHUNK_LINES, SAMPLE_LINES // CHUNK_LINES).astype(np.int64)
    return np.unique((starts[:, None] + np.arange(CHUNK_LINES)).ravel())


def _offsets_by_length(src: TokenSide, tgt: TokenSide) -> NDArray[np.int64]:
    """The offset of each TRACKED_LINES lines at which lengths are correlated, from that of the lines before."""
    offset, offsets = 0, []
    for start in range(0, min(len(src), len(tgt)), TRACKED_LINES):
        rows = np.arange(max(start, -offset), min(start + TRACKED_LINES, len(src), len(tgt) - offset))
        if len(rows):
            offset += best_offset(*(np.expm1(each).astype(float) for each in (src.logs[rows], tgt.logs[rows + offset])))
        offsets.append(offset)
    return np.array(offsets, dtype=np.int64)


def _spread(values: NDArray[np.float32]) -> float:
    return float(np.subtract(*np.percentile(values, [75, 25]))) / 1.35


def _learn_half(src: TokenSide, tgt: TokenSide, learned: NDArray[np.int64], others: NDArray[np.int64]) -> _Half:
    """A lexicon of the lines `learned`, and its words' nats from the lines `others`."""
    (src_words, src_ids), (tgt_words, tgt_ids) = (_word_ids(side.tokens.take(learned)) for side in (src, tgt))
    translations = np.zeros((len(src_words) + 1, NUM_TRANSLATIONS), dtype=np.uint32)
    if len(src_ids.flat) and len(tgt_ids.flat):
        pairs = alignment_pairs(src_ids, tgt_ids, eos=len(src_words), num_targets=len(tgt_words))
        keys, index = np.unique(pairs.key, return_inverse=True)
        probability = expectation_maximisation(keys // len(tgt_words), [(index, pairs.start)])
        is_likely = (probability >= MIN_PROB) & (keys // len(tgt_words) < len(src_words))
        keys, probability = keys[is_likely], probability[is_likely]
        order = np.lexsort((keys, -probability, keys // len(tgt_words)))
        source, target = keys[order] // len(tgt_words), keys[order] % len(tgt_words)
        rank = np.arange(len(source)) - np.searchsorted(source, source)
        is_best = rank < NUM_TRANSLATIONS
        translations[source[is_best], rank[is_best]] = tgt_words[target[is_best]]
    empty = np.zeros(len(src_words) + 1, dtype=np.float32)
    half = _Half(
        src_words if len(src_words) else np.zeros(1, np.uint32),
        translations if len(src_words) else np.zeros((2, NUM_TRANSLATIONS), np.uint32),
        empty,
        empty,
    )
    size = len(half.words) + 1
    ours, theirs = src.take(others), tgt.take(others)
    shifted = np.zeros(size)
    row, is_hit = half.are_opposite(ours.tokens, theirs.tokens)
    hits = np.bincount(row[is_hit], minlength=size)
    seen = np.bincount(row, minlength=size)
    for shift in (7, 19, 41, 83):  # any other lines
        any_row, any_hit = half.are_opposite(ours.tokens, theirs.take(np.roll(np.arange(len(theirs)), shift)).tokens)
        shifted += np.bincount(any_row[any_hit], minlength=size) / 4
    lines = max(1, len(others))
    pool = (hits[:-1].sum() + 1) / (seen[:-1].sum() + 2)
    words = np.unique(_line_keys(tgt.tokens.flat, np.repeat(np.arange(len(tgt)), tgt.tokens.lengths))) & 0xFFFFFFFF
    known, counts = np.unique(words, return_counts=True)
    found = np.minimum(np.searchsorted(known, half.translations), max(0, len(known) - 1))
    frequency = (
        np.where(known[found] == half.translations, counts[found], 0) / max(1, len(tgt))
        if len(known)
        else np.zeros(half.translations.shape)
    )
    by_chance = np.clip(np.where(half.translations != 0, frequency, 0).sum(axis=1), 0.5 / lines, 0.95)
    by_chance = np.maximum(by_chance, (shifted + by_chance * 5) / (seen + 5))
    likely = (hits + 3 * pool) / (seen + 3)
    likely[-1] = (hits[-1] + 0.1) / (seen[-1] + 1)
    by_chance[-1] = (shifted[-1] + 0.5) / (seen[-1] + 10)
    likely = np.clip(np.maximum(likely, by_chance), 0, 0.98)
    return _Half(
        half.words,
        half.translations,
        np.log(likely / by_chance).astype(np.float32),
        np.log((1 - likely) / (1 - by_chance)).astype(np.float32),
    )


def _word_ids(lines: Ragged) -> tuple[NDArray[np.uint32], Ragged]:
    """The words that occur MIN_COUNT times, sorted, and the lines with their numbers."""
    words, counts = np.unique(lines.flat, return_counts=True)
    words = words[counts >= MIN_COUNT]
    if not len(words):
        return words, Ragged(np.empty(0, np.int64), np.zeros(len(lines) + 1, np.int64))
    ids = np.minimum(np.searchsorted(words, lines.flat), len(words) - 1)
    is_known = words[ids] == lines.flat
    line = np.repeat(np.arange(len(lines)), lines.lengths)
    lengths = np.bincount(line[is_known], minlength=len(lines))
    return words, Ragged(ids[is_known], lengths_to_offsets(lengths))


class Aligner:
    """Offsets at which the lines of two texts are translations of each other, from the first line to the last."""

    def __init__(self, src: TokenSide, tgt: TokenSide) -> None:
        self._src, self._tgt = src, tgt
        self._scorer = LineScorer(src, tgt)

    def segments(self) -> list[AlignedLines]:
        """The segments in the order of the source lines; one with offset 0 if all lines are opposite."""
        segments: list[AlignedLines] = []
        start = line = offset = 0
        while (change := self._change(line, offset, -1.0)) is not None:
            begin = end = max(start, change)
            earliest = start + 1 if segments else 0
            found = self._search(begin, offset, earliest)
            if found is None:  # no translations in reach: they may come later, or the lines opposite may be some again
                rise = self._change(begin, offset, 1.0)
                end = len(self._src) if rise is None else max(rise, begin + 1)
                step = WINDOW
                while found is None and begin + step < end:
                    found = self._search(begin + step, offset, earliest)
                    step *= 2
                segments += [AlignedLines(start, begin, offset), AlignedLines(begin, found[0] if found else end, None)]
            else:
                segments.append(AlignedLines(start, found[0], offset))
            start, offset = found or (end, offset)
            line = start + 1
        segments.append(AlignedLines(start, len(self._src), offset))
        return self._joined(self._far_moves([each for each in segments if each.end > each.start]))

    def _change(self, line: int, offset: int, sign: float) -> int | None:
        """The line from which the sum of `sign` times the scores rises by ALARM; None if it never does."""
        total, begin = 0.0, line
        for start in range(line, len(self._src), BLOCK):
            scores = self._scores(np.arange(start, min(len(self._src), start + BLOCK)), offset)
            for index, score in enumerate((sign * scores).tolist(), start + 1):
                total += score
                if total <= 0:
                    total, begin = 0.0, index
                elif total > ALARM:
                    return begin
        return None

    def _scores(self, lines: NDArray[np.int64], offset: int) -> NDArray[np.float32]:
        """[N] nats of source lines with the target lines at an offset; 0 beyond the ends of the text."""
        scores = np.zeros(len(lines), dtype=np.float32)
        is_inside = (lines + offset >= 0) & (lines + offset < len(self._tgt)) & (lines >= 0) & (lines < len(self._src))
        rows = lines[is_inside]
        if len(rows):
            scores[is_inside] = self._scorer.opposite(self._src.take(rows), self._tgt.take(rows + offset), rows)
        return scores

    def _search(self, begin: int, offset: int, earliest: int) -> tuple[int, int] | None:
        """The line near `begin`, not before `earliest`, from which the translations are at another offset, and that."""
        middle = begin + offset
        low, high = max(0, middle - REACH), min(len(self._tgt), middle + WINDOW + REACH)
        found = self._best_offset(begin, low, high, offset)
        if found is None:
            return None
        other, last = found
        lines = np.arange(min(begin, max(earliest, begin - WINDOW // 2)), last)
        gain = np.cumsum(self._scores(lines, offset) - self._scores(lines, other))
        border = int(np.argmax(np.concatenate([[0.0], gain])))
        return int(lines[0]) + border, other

    def _best_offset(self, begin: int, low: int, high: int, offset: int | None) -> tuple[int, int] | None:
        """The offset in the target lines from `low` to `high`, and the line before which it is best; None: none is.

        Args:
            offset: of the lines before, which another one must exceed.
        """
        lines = np.arange(begin, min(len(self._src), begin + WINDOW))
        if not len(lines) or low >= high:
            return None
        table = self._scorer.table(self._src.take(lines), self._tgt.take(np.arange(low, high)), lines)
        offsets = np.arange(low - begin, high - begin)
        column = np.arange(len(lines))[:, None] + np.arange(len(offsets))
        diagonals = np.where(
            column < high - low, np.take_along_axis(table, np.minimum(column, high - low - 1), axis=1), 0
        )
        sums = np.concatenate([np.zeros((1, len(offsets))), np.cumsum(diagonals, axis=0)])  # [W + 1, offsets]
        lowest = np.minimum.accumulate(sums[: MAX_DELAY + 1], axis=0)  # a rise begins at a line before its end
        rises = sums - lowest[np.minimum(np.arange(len(sums)), len(lowest) - 1)]
        best = rises.max(axis=0)
        usual = 0.0 if offset is None else float(best[np.flatnonzero(offsets == offset)].max(initial=0.0))
        candidates = np.flatnonzero((best > usual + CERTAIN) & (best >= 0.8 * best.max()))
        if not len(candidates):
            return None
        nearest = candidates[np.argmin(np.abs(offsets[candidates] - (offset or 0)))]
        return int(offsets[nearest]), begin + int(np.argmax(rises[:, nearest]))

    def _far_moves(self, segments: list[AlignedLines]) -> list[AlignedLines]:
        """Segments without translation that are the translations of each other's, as of blocks that were exchanged."""
        lost = [each for each in segments if each.offset is None][:MAX_LOST]
        offsets = {}
        for one, other in permutations(lost, 2):
            found = self._best_offset(one.start, max(0, other.start), min(len(self._tgt), other.end + WINDOW), None)
            if found is not None:
                offsets[one, other] = found[0]
        moved = {}
        for (one, other), offset in offsets.items():
            back = offsets.get((other, one), -offset)  # of a short block, one direction alone may be certain
            if abs(offset + back) < MAX_DELAY:
                moved[one] = AlignedLines(one.start, one.end, offset)
                moved[other] = AlignedLines(other.start, other.end, back)
        return [moved.get(each, each) for each in segments]

    @staticmethod
    def _joined(segments: list[AlignedLines]) -> list[AlignedLines]:
        joined: list[AlignedLines] = []
        for each in segments:
            if joined and joined[-1].offset == each.offset:
                each = AlignedLines(joined.pop().start, each.end, each.offset)
            joined.append(each)
        return joined
