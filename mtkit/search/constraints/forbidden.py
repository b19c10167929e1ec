"""Forbidden texts: translations that must not contain a text, in whatever way it is split into tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from mtkit.search.constraints.constraint import Prefixes

CACHE_SIZE = 1024  # cached results of `completing_ids`, of up to 8 V bytes each


class TokenBytes:
    """The bytes that the tokens of a vocabulary stand for.

    Args:
        of_token: the bytes of each token by id; empty for the end of sentence, which is never forbidden.
    """

    def __init__(self, of_token: Sequence[bytes]) -> None:
        self.of_token = of_token
        self.completing_ids = lru_cache(CACHE_SIZE)(self._completing_ids)

    def suffix(self, tokens: Sequence[int], size: int) -> bytes:
        """The last bytes of a sequence of tokens, at least `size` bytes or all of them."""
        suffix = b""
        for token in reversed(tokens):
            if len(suffix) >= size:
                break
            suffix = self.of_token[token] + suffix
        return suffix

    def _completing_ids(self, text: bytes, num_matched: int) -> Tensor:
        """Ids, in ascending order, of the tokens that complete `text` after its first `num_matched` bytes."""
        head = text[:num_matched]
        return torch.tensor([i for i, token in enumerate(self.of_token) if text in head + token], dtype=torch.int64)


class ForbiddenTexts:
    """Forbids every token that would complete a text; `texts[b]` are those of sentence b, each at least one byte.

    The tokens that complete a text depend on the longest beginning of the text with which the hypothesis ends, as in
    string matching by Knuth, Morris and Pratt 1977, https://doi.org/10.1137/0206024.
    """

    def __init__(self, texts: Sequence[Sequence[bytes]], token_bytes: TokenBytes) -> None:
        """Raises ValueError if a text is empty."""
        if not all(text for of_sentence in texts for text in of_sentence):
            raise ValueError("a forbidden text of no bytes would forbid everything")
        self.texts = texts
        self.token_bytes = token_bytes
        self._has_texts = torch.tensor([bool(of_sentence) for of_sentence in texts])  # [B]

    def __call__(self, prefixes: Prefixes, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        rows = self._has_texts.to(prefixes.sentence.device)[prefixes.sentence].nonzero().squeeze(1)
        result = log_prob.clone()
        hypotheses = zip(rows.tolist(), prefixes.sentence[rows].tolist(), prefixes.tokens[rows].tolist(), strict=True)
        for row, sentence, tokens in hypotheses:
            for text in self.texts[sentence]:
                num_matched = _overlap(self.token_bytes.suffix(tokens, len(text) - 1), text)
                ids = self.token_bytes.completing_ids(text, num_matched)
                result[row, ids.to(result.device)] = float("-inf")
        return result


def _overlap(suffix: bytes, text: bytes) -> int:
    """Length of the longest beginning of `text`, shorter than `text` itself, with which `suffix` ends."""
    max_size = min(len(suffix), len(text) - 1)
    return next(size for size in range(max_size, -1, -1) if suffix.endswith(text[:size]))
