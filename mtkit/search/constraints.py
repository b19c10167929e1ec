"""Constraints on next tokens, applied one after another: forced prefixes, no repetition, excluded texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

FORCED_LOG_PROB = -100.0  # log-probability of a token that one constraint requires and another one forbids


@dataclass(frozen=True)
class PartialHypotheses:
    """The hypotheses that are extended."""

    tokens: Tensor  # [rows, t] ids so far, without bos
    sentence: Tensor  # [rows] index of the sentence in the request
    language_model: Tensor | None = None  # [rows, V] log-probabilities of the next token, see ShallowFusion


class Constraint(Protocol):
    """Changes the log-probabilities of the next token; -inf forbids it."""

    def __call__(self, hypotheses: PartialHypotheses, log_prob: Tensor) -> Tensor:
        """New log-probabilities [rows, V], or `log_prob` [rows, V] itself, which must not be written to."""


ANY = -1  # a position without a forced token


class ForcedPrefix:
    """Every hypothesis of sentence b begins with `prefixes[b]`, even if an earlier constraint forbids that.

    The log-probabilities of the forced tokens stay the model's, except those of the first `free`, which are 0.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]], *, free: int = 0) -> None:
        self.free = free
        max_length = max((len(prefix) for prefix in prefixes), default=0)
        self.ids = torch.full((len(prefixes), max_length), ANY)  # [B, max_length]
        for row, prefix in enumerate(prefixes):
            self.ids[row, : len(prefix)] = torch.tensor(prefix, dtype=torch.int64)

    def __call__(self, hypotheses: PartialHypotheses, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        length = hypotheses.tokens.size(1)
        if length >= self.ids.size(1):
            return log_prob
        token = self.ids.to(log_prob.device)[hypotheses.sentence, length]  # [rows]
        forced = torch.full_like(log_prob, float("-inf"))
        column = token.clamp(min=0).unsqueeze(1)  # [rows, 1]
        value = log_prob.gather(1, column).clamp(min=FORCED_LOG_PROB)
        forced.scatter_(1, column, torch.zeros_like(value) if length < self.free else value)
        return torch.where((token != ANY).unsqueeze(1), forced, log_prob)


@dataclass(frozen=True)
class NoRepeatNgram:
    """Forbids a token that would complete an n-gram which the hypothesis contains already (Paulus et al. 2018)."""

    size: int

    def __call__(self, hypotheses: PartialHypotheses, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        tokens, length = hypotheses.tokens, hypotheses.tokens.size(1)
        if length < self.size:
            return log_prob
        ngrams = tokens.unfold(1, self.size, 1)  # [rows, t - size + 1, size]
        recent = tokens[:, length - self.size + 1 :].unsqueeze(1)  # [rows, 1, size - 1]
        matches = (ngrams[:, :, :-1] == recent).all(2)  # [rows, t - size + 1]
        row, position = matches.nonzero(as_tuple=True)
        result = log_prob.clone()
        result[row, ngrams[row, position, -1]] = float("-inf")
        return result


@dataclass(frozen=True)
class RepetitionPenalty:
    """Multiplies the log-probability of every token that the hypothesis contains by `theta` > 1.

    Keskar et al. 2019 (CTRL), section 4.1, divide the logits instead, whose signs differ. With log-probabilities, which
    are never positive, the penalty always lowers the value. https://arxiv.org/abs/1909.05858
    """

    theta: float

    def __call__(self, hypotheses: PartialHypotheses, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        if hypotheses.tokens.size(1) == 0:
            return log_prob
        used = torch.zeros_like(log_prob, dtype=torch.bool).scatter_(1, hypotheses.tokens, True)
        return torch.where(used, log_prob * self.theta, log_prob)


CACHE_SIZE = 1024  # cached results of `completing_ids`, of up to 8 V bytes each


class TokenBytes:
    """The bytes that the tokens of a vocabulary stand for.

    Args:
        of_token: the bytes of each token by id; empty for the end of sentence, which is never excluded.
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


class ExcludedTexts:
    """Forbids every token that would complete a text; `texts[b]` are those of sentence b, each at least one byte.

    The tokens that complete a text depend on the longest beginning of the text with which the hypothesis ends, as in
    string matching by Knuth, Morris and Pratt 1977, https://doi.org/10.1137/0206024.
    """

    def __init__(self, texts: Sequence[Sequence[bytes]], token_bytes: TokenBytes) -> None:
        """Raises ValueError if a text is empty."""
        if not all(text for of_sentence in texts for text in of_sentence):
            raise ValueError("an excluded text of no bytes would exclude everything")
        self.texts = texts
        self.token_bytes = token_bytes
        self._has_texts = torch.tensor([bool(of_sentence) for of_sentence in texts])  # [B]

    def __call__(self, hypotheses: PartialHypotheses, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        rows = self._has_texts.to(hypotheses.sentence.device)[hypotheses.sentence].nonzero().squeeze(1)
        result = log_prob.clone()
        chosen = (rows, hypotheses.sentence[rows], hypotheses.tokens[rows])
        for row, sentence, tokens in zip(*(each.tolist() for each in chosen), strict=True):
            for text in self.texts[sentence]:
                num_matched = _overlap(self.token_bytes.suffix(tokens, len(text) - 1), text)
                ids = self.token_bytes.completing_ids(text, num_matched)
                result[row, ids.to(result.device)] = float("-inf")
        return result


def _overlap(suffix: bytes, text: bytes) -> int:
    """Length of the longest beginning of `text`, shorter than `text` itself, with which `suffix` ends."""
    max_size = min(len(suffix), len(text) - 1)
    return next(size for size in range(max_size, -1, -1) if suffix.endswith(text[:size]))
