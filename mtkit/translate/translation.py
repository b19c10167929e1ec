"""What translating a line gives."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One of the n best."""

    hyp: str
    score: float
    log_prob: float


@dataclass(frozen=True, kw_only=True)
class Translation:
    """One translated line.

    A line that was split has the sum of its parts' log-probabilities, and one alternative only.

    Attributes:
        line: its number, from 1.
        hyp: the translation, without line breaks.
        score: what it was ranked by.
        log_prob: nats, the ends of sentences included; NaN if nobody asked for it. With a shortlist, that among its
            pieces.
        pieces: its subwords; between the parts of a line that was split, the end of sentence.
        piece_log_probs: of each piece and, last, of the end of sentence.
        alignment: pairs (source word, word of hyp), from 0, words being what white space separates.
        nbest: the n best translations, best first.
        length_ratio: pieces of the translation to pieces of the source; 0 for a blank line.
        flags: "split" (longer than any in training, translated in parts), "long" (longer, translated whole),
            "repetition" (ran into a loop, and was translated again without one unless `search.retry_loops` is false),
            "unknown" (the source has characters that the vocabulary lacks), "limit" (ended by the maximum length),
            "excluded" (no room was left to keep what is included from spelling what is excluded).
    """

    line: int
    hyp: str
    score: float = 0.0
    log_prob: float = 0.0
    pieces: tuple[str, ...] = ()
    piece_log_probs: tuple[float, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    nbest: tuple[Alternative, ...] = ()
    length_ratio: float = 0.0
    flags: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def json(self) -> str:
        """One line of JSON; a figure that is not a finite number, which JSON cannot write, is null."""
        return json.dumps(_finite(self.as_dict()), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
