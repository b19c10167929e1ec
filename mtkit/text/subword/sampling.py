"""Subword regularization: random segmentations that depend on the line and a seed alone, in every process.

sentencepiece can sample segmentations too, but its samples for one seed differ from process to process. A resumed
training would then see other tokens than an uninterrupted one.
"""

from __future__ import annotations

import math
import random
import re

import sentencepiece

from mtkit.text.normalise import SPACE_MARK

UNKNOWN_PENALTY = 10.0  # sentencepiece scores an unknown character this far below its worst piece


class SubwordSampler:
    """Samples segmentations of a sentencepiece model: BPE-dropout for BPE, Kudo's sampling for unigram models."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        """Read the pieces of the model; RuntimeError for a word or char model, which has one segmentation only."""
        processor.encode("a", enable_sampling=True, nbest_size=-1, alpha=0.5)  # raises for a word or char model
        self._processor = p = processor
        size = p.get_piece_size()
        texts = [i for i in range(size) if not (p.is_control(i) or p.is_unknown(i) or p.is_byte(i))]
        self._ids: dict[str, int] = {p.id_to_piece(i): i for i in texts if not p.is_unused(i)}
        # minus the index of a piece's merge (BPE), or its log-probability (unigram)
        scores = self._scores = {p.id_to_piece(i): p.get_score(i) for i in texts}
        self._byte_ids = [i for i in range(size) if p.is_byte(i)]  # of the 256 bytes; empty without byte fallback
        self._is_bpe = all(score.is_integer() for score in scores.values())  # log-probabilities are not integers
        if not self._is_bpe:  # pieces that are unused take part in merges alone
            scores = self._scores = {piece: scores[piece] for piece in self._ids}
        self._max_piece_length = max(map(len, scores), default=1)
        self._unk_score = min(scores.values(), default=0.0) - UNKNOWN_PENALTY
        spans_words = any(SPACE_MARK in piece[1:] for piece in scores)  # then a line cannot be cut into words first
        self._word = re.compile(".+" if spans_words else f"{SPACE_MARK}?[^{SPACE_MARK}]+|{SPACE_MARK}", re.DOTALL)

    def __call__(self, text: str, *, seed: int, alpha: float) -> list[int]:
        """Token ids of the text; `bpe_dropout` and `sample_unigram` define alpha.

        A segment without a piece becomes its bytes; without byte fallback, adjacent unknown segments become one unk.
        """
        rng = random.Random(seed)
        normalised: str = self._processor.normalize(text)
        sample = self.bpe_dropout if self._is_bpe else self.sample_unigram
        ids: list[int] = []
        unk = self._processor.unk_id()
        for segment in (segment for word in self._word.findall(normalised) for segment in sample(word, alpha, rng)):
            number = self._ids.get(segment)
            if number is not None:
                ids.append(number)
            elif self._byte_ids:
                ids.extend(self._byte_ids[byte] for byte in segment.encode())
            elif not ids or ids[-1] != unk:
                ids.append(unk)
        return ids

    def bpe_dropout(self, word: str, alpha: float, rng: random.Random) -> list[str]:
        """Byte-pair encoding that skips each applicable merge with probability alpha, at every merge step.

        BPE-dropout, Provilkov et al. 2020, algorithm 1, https://arxiv.org/abs/1910.13267. A result that is unused is
        taken apart into the two of its last merge, as sentencepiece does.
        """
        scores, draw = self._scores, rng.random
        merges: dict[str, tuple[str, str]] = {}
        segments = list(word)
        while True:
            best, index = -math.inf, -1
            for i in range(len(segments) - 1):
                score = scores.get(segments[i] + segments[i + 1])
                if score is not None and score > best and draw() >= alpha:
                    best, index = score, i
            if index < 0:
                break
            left, right = segments[index : index + 2]
            merges[left + right] = left, right
            segments[index : index + 2] = [left + right]
        used: list[str] = []
        segments.reverse()
        while segments:
            segment = segments.pop()
            if segment in merges and segment not in self._ids:
                segments += reversed(merges[segment])
            else:
                used.append(segment)
        return used

    def sample_unigram(self, word: str, alpha: float, rng: random.Random) -> list[str]:
        """A segmentation sampled with probability proportional to (product of its piece probabilities) ^ alpha.

        Kudo 2018, sec. 3.3, https://arxiv.org/abs/1804.10959: forward filtering (the summed weight of all
        segmentations of each beginning), then backward sampling from the end of the word.
        """
        scores = self._scores
        log_sums = [0.0]  # log of the summed weights of all segmentations of the first `end` characters
        last_pieces: list[tuple[list[int], list[float]]] = [([], [])]  # by end: starts and weights of the last piece
        for end in range(1, len(word) + 1):
            starts, logs = [], []
            for start in range(max(0, end - self._max_piece_length), end):
                # A single character is always allowed, as unknown if need be: every word has a segmentation.
                score = scores.get(word[start:end], self._unk_score if start == end - 1 else None)
                if score is not None:
                    starts.append(start)
                    logs.append(log_sums[start] + alpha * score)
            max_log = max(logs)
            weights = [math.exp(log - max_log) for log in logs]
            log_sums.append(max_log + math.log(math.fsum(weights)))
            last_pieces.append((starts, weights))
        segments: list[str] = []
        end = len(word)
        while end:
            starts, weights = last_pieces[end]
            (start,) = rng.choices(starts, weights)
            segments.append(word[start:end])
            end = start
        return segments[::-1]
