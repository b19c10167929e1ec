"""Constraints on next tokens, applied one after another: prefixes, no repetition, excluded and included texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.search.beam_state import Extensions, ExtensionSelector, LiveHypotheses
from mtkit.search.hypothesis import SpecialIds

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
                suffix = self.token_bytes.suffix(tokens, len(text) - 1)
                # the longest beginning of the text, shorter than the text itself, with which the hypothesis ends
                sizes = range(min(len(suffix), len(text) - 1), -1, -1)
                num_matched = next(size for size in sizes if suffix.endswith(text[:size]))
                ids = self.token_bytes.completing_ids(text, num_matched)
                result[row, ids.to(result.device)] = float("-inf")
        return result


NONE = -1  # padding of phrases


class IncludedPhrases(ExtensionSelector):
    """Lexically constrained decoding: every translation of sentence b contains its phrases, which may overlap.

    A constraint that guarantees the phrases in any search, and a selector that finds good positions for them.

    The number of missing tokens of a hypothesis is a function of its tokens: the lengths of all phrases that it lacks,
    minus the longest beginning of one of them with which it ends. The end of sentence is forbidden while a phrase is
    missing. A token that continues no phrase is forbidden where the maximum length would leave no space for all missing
    phrases after it. This guarantees the phrases in any search, even where only these tokens are left.

    As an ExtensionSelector it is dynamic beam allocation (Post & Vilar 2018, sec. 3, https://arxiv.org/abs/1804.06609,
    vectorised as in Hu et al. 2019). The candidates, among them all that continue a phrase, are divided into banks by
    their number of missing tokens. The beam takes one candidate of each bank in turn, fewest missing tokens first.
    """

    groups = 1
    per_beam = False

    def __init__(
        self, phrases: Sequence[Sequence[Sequence[int]]], max_length: Sequence[int], special_ids: SpecialIds
    ) -> None:
        """Take the phrases of each sentence.

        Args:
            phrases: the phrases of each sentence, each at least one token.
            max_length: maximum number of tokens of each sentence, the `max_length` of its request.
            special_ids: ids with a meaning.

        Raises:
            ValueError: a phrase is empty, or the phrases of a sentence exceed its maximum length.
        """
        self.eos = special_ids.eos
        self.banned = torch.tensor(special_ids.banned, dtype=torch.int64)
        self.max_length = torch.tensor(max_length)  # [B]
        unique = [list(dict.fromkeys(tuple(phrase) for phrase in of_sentence)) for of_sentence in phrases]
        max_count = max([1, *map(len, unique)])
        max_size = max([1, *(len(phrase) for of_sentence in unique for phrase in of_sentence)])
        self.ids = torch.full((len(unique), max_count, max_size), NONE)  # [B, P, L]
        for sentence, of_sentence in enumerate(unique):
            if not all(of_sentence):
                raise ValueError("an included phrase of no tokens")
            if (total := sum(map(len, of_sentence))) > max_length[sentence]:
                raise ValueError(f"phrases of {total} tokens in a sentence of at most {max_length[sentence]}")
            for number, phrase in enumerate(of_sentence):
                self.ids[sentence, number, : len(phrase)] = torch.tensor(phrase)
        self.lengths = (self.ids != NONE).sum(2)  # [B, P], 0: no phrase
        self.sizes = {len(phrase) for of_sentence in unique for phrase in of_sentence}

    def __call__(self, hypotheses: PartialHypotheses, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        unmet, progress = self._progress(hypotheses)  # [rows, P]
        missing = (unmet * self._of(self.lengths, hypotheses.sentence)).sum(1)  # [rows], as if no phrase were begun
        log_prob = log_prob.clone()
        log_prob[:, self.eos] = log_prob[:, self.eos].masked_fill(unmet.any(1), float("-inf"))
        log_prob[:, self.banned] = float("-inf")
        # One more token of any kind may interrupt the phrase that is begun. If all phrases would then not fit, only
        # tokens that continue a phrase are allowed. This happens before it is too late, since the phrases fit at first.
        late = hypotheses.tokens.size(1) + 1 + missing > self._of(self.max_length, hypotheses.sentence)
        # Earlier constraints may have left nothing; then too the phrases go on.
        dead = (log_prob == float("-inf")).all(1)
        only_phrases = (late | dead) & unmet.any(1)  # [rows]
        # Only the phrase with the most progress may be continued: to begin another would lose that progress.
        token = self._next_tokens(hypotheses, unmet, progress, furthest_only=True)  # [rows, P]
        column = token.clamp(min=0)
        value = log_prob.gather(1, column).clamp(min=FORCED_LOG_PROB).masked_fill(token == NONE, float("-inf"))
        continuations = torch.full_like(log_prob, float("-inf"))
        continuations.scatter_reduce_(1, column, value, reduce="amax")  # phrases may have the same next token
        return torch.where(only_phrases.unsqueeze(1), continuations, log_prob)

    def missing(self, hypotheses: PartialHypotheses) -> Tensor:
        """Number of missing tokens of each hypothesis [rows]."""
        unmet, progress = self._progress(hypotheses)
        total = (unmet * self._of(self.lengths, hypotheses.sentence)).sum(1)
        return total - (progress * unmet).amax(1)

    def required_ids(self, live: LiveHypotheses) -> Tensor | None:
        """See ExtensionSelector; the next token of every unmet phrase [rows, P], or NONE."""
        hypotheses = PartialHypotheses(live.tokens, live.beam.repeat_interleave(live.width))
        unmet, progress = self._progress(hypotheses)
        return self._next_tokens(hypotheses, unmet, progress, furthest_only=False)

    def choose(self, candidates: Extensions, live: LiveHypotheses, width: int) -> Tensor:
        """See ExtensionSelector."""
        total = candidates.log_prob  # [N, M]
        before = live.tokens.index_select(0, live.rows_of(candidates.parent))  # [N·M, t]
        tokens = torch.cat([before, candidates.token.reshape(-1, 1)], dim=1)
        hypotheses = PartialHypotheses(tokens, live.beam.repeat_interleave(total.size(1)))
        missing = self.missing(hypotheses).view(total.shape)  # [N, M]
        order = total.sort(dim=1, descending=True, stable=True).indices
        missing, dead = missing.gather(1, order), total.gather(1, order) == float("-inf")
        # With the candidates in order of probability, the rank in a bank is the number of earlier ones in that bank.
        same_bank = missing.unsqueeze(2) == missing.unsqueeze(1)  # [N, M, M]
        bank_rank = same_bank.tril(-1).sum(2)
        # Sort by rank first, then by bank: the best of each bank, then the second of each, and so on.
        num_banks = int(self.lengths.sum(1).max()) + 1
        key = (bank_rank * num_banks + missing).masked_fill(dead, torch.iinfo(torch.int64).max)
        chosen = key.sort(dim=1, stable=True).indices[:, :width].sort(dim=1).values  # back in order of probability
        return order.gather(1, chosen)

    def _progress(self, hypotheses: PartialHypotheses) -> tuple[Tensor, Tensor]:
        """Missing phrases, and the matched length of each.

        Returns:
            [rows, P] bool, True for a phrase that the hypothesis lacks; [rows, P], the number of first tokens of the
            phrase with which the hypothesis ends.
        """
        tokens = hypotheses.tokens
        ids, lengths = self._of(self.ids, hypotheses.sentence), self._of(self.lengths, hypotheses.sentence)
        unmet = lengths > 0  # [rows, P]
        longest = min(ids.size(2), tokens.size(1))
        for size in (size for size in self.sizes if size <= longest):
            # A phrase of exactly this size is met if it stands anywhere in the hypothesis.
            ngrams = tokens.unfold(1, size, 1).unsqueeze(1)  # [rows, 1, t - size + 1, size]
            met = (ngrams == ids[:, :, :size].unsqueeze(2)).all(3).any(2) & (lengths == size)
            unmet = unmet & ~met
        matches = _matching_beginnings(ids[:, :, :longest], tokens[:, tokens.size(1) - longest :])  # [rows, P, n]
        sizes = torch.arange(1, longest + 1, device=ids.device)  # [n]
        matches = matches & (sizes <= lengths.unsqueeze(2))
        progress = torch.cat([torch.zeros_like(lengths).unsqueeze(2), matches * sizes], dim=2).amax(2)
        return unmet, progress

    def _next_tokens(
        self, hypotheses: PartialHypotheses, unmet: Tensor, progress: Tensor, *, furthest_only: bool
    ) -> Tensor:
        """The token that continues or begins each unmet phrase [rows, P]; NONE for met phrases.

        Args:
            hypotheses: the hypotheses.
            unmet: [rows, P], see `_progress`.
            progress: [rows, P], see `_progress`.
            furthest_only: NONE also for phrases with less progress than another.
        """
        ids = self._of(self.ids, hypotheses.sentence)  # [rows, P, L]
        index = progress.clamp(max=self.ids.size(2) - 1)
        token = ids.gather(2, index.unsqueeze(2)).squeeze(2)  # [rows, P]
        if furthest_only:
            unmet = unmet & (progress == (progress * unmet).amax(1, keepdim=True))
        return token.masked_fill(~unmet, NONE)

    def _of(self, table: Tensor, sentence: Tensor) -> Tensor:
        """Rows of a table for the sentences of the hypotheses, on their device."""
        return table.to(sentence.device)[sentence]


def _matching_beginnings(ids: Tensor, recent: Tensor) -> Tensor:
    """Return whether the first s tokens of each phrase equal the last s tokens of each hypothesis, for every s at once.

    Args:
        ids: [rows, P, n] first n tokens of each phrase.
        recent: [rows, n] last n tokens of each hypothesis.

    Returns:
        [rows, P, n], index s - 1 for s tokens.
    """
    rows, count, size = ids.shape
    if size == 0:
        return ids == NONE
    differs = ids.unsqueeze(3) != recent[:, None, None, :]  # [rows, P, n, n]
    # Token i of the phrase is compared with token n - s + i of the hypothesis. These diagonals of the table are the
    # columns of the same memory with rows of n + 1 elements.
    padded = F.pad(differs.flatten(2), (0, size))  # [rows, P, n (n + 1)]
    diagonals = padded.view(rows, count, size, size + 1)[..., :size]  # [rows, P, i, n - s]
    inside = torch.ones(size, size, dtype=torch.bool, device=ids.device).triu().flip(1)  # [i, n - s], i < s
    return ~(diagonals & inside).any(2).flip(2)
