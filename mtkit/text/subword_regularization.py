"""Random segmentations that a line and a seed decide alone, in every process.

sentencepiece draws segmentations too, but what it draws from one seed differs from process to process: a training that
goes on after an interruption would see other pieces than one that was not interrupted.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sentencepiece

from mtkit.text.normalise import SPACE_MARK

UNKNOWN_PENALTY = 10.0  # how far sentencepiece's score of an unknown character is below that of the worst piece


@dataclass(frozen=True)
class Pieces:
    """What text can become.

    Attributes:
        ids: of each piece.
        scores: of each piece: minus the number of the merge that makes it, or its log-probability.
        unk: id of what no piece is there for.
        byte_ids: of the 256 bytes, or none without byte fallback.
    """

    ids: dict[str, int]
    scores: dict[str, float]
    unk: int
    byte_ids: Sequence[int]

    @classmethod
    def of(cls, processor: sentencepiece.SentencePieceProcessor) -> Pieces:
        """Those of a sentencepiece model."""
        p = processor
        size = p.get_piece_size()
        texts = [i for i in range(size) if not (p.is_control(i) or p.is_unknown(i) or p.is_byte(i) or p.is_unused(i))]
        return cls(
            ids={p.id_to_piece(i): i for i in texts},
            scores={p.id_to_piece(i): p.get_score(i) for i in texts},
            unk=p.unk_id(),
            byte_ids=[i for i in range(size) if p.is_byte(i)],
        )

    def numbered(self, segments: Iterable[str]) -> list[int]:
        """The ids of segments; characters without a piece become their bytes, or one unknown piece for all in a row."""
        found: list[int] = []
        for segment in segments:
            number = self.ids.get(segment)
            if number is not None:
                found.append(number)
            elif self.byte_ids:
                found.extend(self.byte_ids[byte] for byte in segment.encode())
            elif not found or found[-1] != self.unk:
                found.append(self.unk)
        return found


class Sampler:
    """Draws segmentations of a sentencepiece model."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        """Read its pieces; RuntimeError for a word or char model, which has nothing to draw from."""
        processor.encode("a", enable_sampling=True, nbest_size=-1, alpha=0.5)  # says whether it has
        self._processor = processor
        self._pieces = Pieces.of(processor)
        scores = self._pieces.scores
        self._merges = all(score.is_integer() for score in scores.values())  # log-probabilities are not
        self._longest = max(map(len, scores), default=1)
        self._unknown = min(scores.values(), default=0.0) - UNKNOWN_PENALTY
        inside = any(SPACE_MARK in piece[1:] for piece in scores)  # a piece of several words
        self._word = re.compile(".+" if inside else f"{SPACE_MARK}?[^{SPACE_MARK}]+|{SPACE_MARK}", re.DOTALL)

    def __call__(self, text: str, *, seed: int, alpha: float) -> list[int]:
        """Ids of the text; see `merged` and `drawn` for what alpha is."""
        chance = random.Random(seed)
        whole: str = self._processor.normalize(text)
        draw = self.merged if self._merges else self.drawn
        return self._pieces.numbered(s for word in self._word.findall(whole) for s in draw(word, alpha, chance))

    def merged(self, word: str, alpha: float, chance: random.Random) -> list[str]:
        """Byte-pair encoding in which every merge is left out with probability alpha each time that it is possible.

        BPE-dropout, Provilkov et al. 2020, algorithm 1, https://arxiv.org/abs/1910.13267.
        """
        scores, draw = self._pieces.scores, chance.random
        segments = list(word)
        while True:
            best, place = -math.inf, -1
            for i in range(len(segments) - 1):
                score = scores.get(segments[i] + segments[i + 1])
                if score is not None and score > best and draw() >= alpha:
                    best, place = score, i
            if place < 0:
                return segments
            segments[place : place + 2] = [segments[place] + segments[place + 1]]

    def drawn(self, word: str, alpha: float, chance: random.Random) -> list[str]:
        """A segmentation by the product of its pieces' probabilities to the power alpha.

        Kudo 2018, sec. 3.3, https://arxiv.org/abs/1804.10959: sums over all segmentations of what comes before each
        place, then a draw from the end to the beginning.
        """
        scores = self._pieces.scores
        mass = [0.0]  # log of the summed weights of all segmentations of the first so many characters
        ways: list[tuple[list[int], list[float]]] = [([], [])]  # where the last piece may begin, and the weight of each
        for end in range(1, len(word) + 1):
            starts, logs = [], []
            for start in range(max(0, end - self._longest), end):
                score = scores.get(word[start:end], self._unknown if start == end - 1 else None)
                if score is not None:
                    starts.append(start)
                    logs.append(mass[start] + alpha * score)
            most = max(logs)
            weights = [math.exp(log - most) for log in logs]
            mass.append(most + math.log(math.fsum(weights)))
            ways.append((starts, weights))
        segments: list[str] = []
        end = len(word)
        while end:
            starts, weights = ways[end]
            (start,) = chance.choices(starts, weights)
            segments.append(word[start:end])
            end = start
        return segments[::-1]
