"""Texts that a translation must not contain, however they are cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from mtkit.search.constraints.constraint import Prefixes

KEPT = 1024  # results of `completing` that are remembered, of up to 8 V bytes each


class Spellings:
    """What the pieces of a vocabulary write.

    Args:
        of_piece: the bytes of each piece by id; none for the end of sentence, which can always follow.
    """

    def __init__(self, of_piece: Sequence[bytes]) -> None:
        self.of_piece = of_piece
        self.completing = lru_cache(KEPT)(self._completing)

    def end(self, tokens: Sequence[int], size: int) -> bytes:
        """The last bytes, at least `size` if there are so many, of what the tokens write."""
        end = b""
        for token in reversed(tokens):
            if len(end) >= size:
                break
            end = self.of_piece[token] + end
        return end

    def _completing(self, text: bytes, begun: int) -> Tensor:
        """The ids, in ascending order, with which `text` is there after its first `begun` bytes."""
        head = text[:begun]
        return torch.tensor([i for i, piece in enumerate(self.of_piece) if text in head + piece], dtype=torch.int64)


class ForbiddenTexts:
    """Forbids every piece that would complete a text; `texts[b]` are those of sentence b, each at least one byte.

    Whether a piece does so depends on how much of the text the hypothesis ends with, as in Knuth, Morris and Pratt's
    search for it, https://doi.org/10.1137/0206024.
    """

    def __init__(self, texts: Sequence[Sequence[bytes]], spellings: Spellings) -> None:
        """Raises ValueError if a text is empty."""
        if not all(text for those in texts for text in those):
            raise ValueError("a forbidden text of no bytes would forbid everything")
        self.texts = texts
        self.spellings = spellings
        self._concerned = torch.tensor([bool(those) for those in texts])  # [B]

    def __call__(self, prefixes: Prefixes, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        rows = self._concerned.to(prefixes.sentence.device)[prefixes.sentence].nonzero().squeeze(1)
        result = log_prob.clone()
        found = zip(rows.tolist(), prefixes.sentence[rows].tolist(), prefixes.tokens[rows].tolist(), strict=True)
        for row, sentence, tokens in found:
            for text in self.texts[sentence]:
                begun = _overlap(self.spellings.end(tokens, len(text) - 1), text)
                result[row, self.spellings.completing(text, begun).to(result.device)] = float("-inf")
        return result


def _overlap(written: bytes, text: bytes) -> int:
    """The most bytes that `text` begins with and `written` ends with, not all of `text`."""
    longest = min(len(written), len(text) - 1)
    return next(size for size in range(longest, -1, -1) if written.endswith(text[:size]))
