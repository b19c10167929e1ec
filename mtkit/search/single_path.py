"""Search along single paths: each hypothesis is extended by one token at a time and never discarded.

The token is the most probable one (greedy search), or a sampled one (see Sampling).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from mtkit.search.constraints import PartialHypotheses
from mtkit.search.fast_topk import log_normaliser, row_chunks, top_k
from mtkit.search.hypothesis import Hypothesis, SearchSettings
from mtkit.search.interface import DecoderStep, SearchRequest, SearchRun, Stepper, compaction_order
from mtkit.search.length_penalty import LengthPenalty


class SampleKey(NamedTuple):
    """Identity of a choice; the same in every batch, so that it can seed a random number."""

    sentence_id: Tensor  # [rows] of the request's `sentence_ids`
    path: Tensor  # [rows] index of the hypothesis among those of its sentence
    step: int


class NextToken(NamedTuple):
    """The token that each hypothesis is extended with."""

    token: Tensor  # [rows] its id
    value: Tensor  # [rows] the model's log-probability, nats, or its logit if log-probabilities are not computed
    forced: Tensor  # [rows] bool, the end of sentence was the only choice


class TokenChooser(Protocol):
    """Chooses the next token of each hypothesis."""

    def __call__(self, logits: Tensor, key: SampleKey) -> tuple[Tensor, Tensor]:
        """Tokens and their `logits` [rows, V], both [rows]; forbidden tokens have -inf."""


def argmax(logits: Tensor, key: SampleKey) -> tuple[Tensor, Tensor]:
    """The most probable token: greedy search."""
    best = top_k(logits, 1)
    return best.column.squeeze(1), best.value.squeeze(1)


@dataclass(frozen=True)
class SinglePathSearch:
    """Follows `num_paths` independent paths for each sentence.

    Attributes:
        settings: `n_best` is at most `num_paths`; beam size, patience and coverage are ignored.
        choose: chooses the next token.
        num_paths: hypotheses of each sentence; more than one are useful only if `choose` is random.
    """

    settings: SearchSettings
    choose: TokenChooser = argmax
    num_paths: int = 1

    @torch.inference_mode()
    def __call__(self, stepper: Stepper, request: SearchRequest) -> list[list[Hypothesis]]:
        """The n best hypotheses of each sentence by score, at least one each; sampled ones may be equal."""
        if not request.num_sentences:
            return []
        run = _PathRun(self, stepper, request)
        run.run()
        config = self.settings.config
        hypotheses = run.history.hypotheses(config.penalty(), with_log_probs=run.computes_log_probs)
        sentences = [hypotheses[i * self.num_paths : (i + 1) * self.num_paths] for i in range(request.num_sentences)]
        return [sorted(paths, key=lambda h: (not h.failed, -h.score))[: config.num_returned] for paths in sentences]


class _HistoryStep(NamedTuple):
    """The tokens chosen at one step, for the paths that are in the batch."""

    path: Tensor  # [rows]
    token: Tensor  # [rows]
    value: Tensor  # [rows] see NextToken
    attention: Tensor | None  # [rows, S]


class _PathHistory:
    """The tokens of all paths, kept as lists of steps; assembled into hypotheses once, after the last step."""

    def __init__(self, num_paths: int) -> None:
        self.num_paths = num_paths
        self.lengths = torch.zeros(num_paths, dtype=torch.int64)
        self.forced = torch.zeros(num_paths, dtype=torch.bool)
        self.steps: list[_HistoryStep] = []

    def add(self, path: Tensor, token: Tensor, value: Tensor, attention: Tensor | None) -> None:
        """Append the tokens [rows] of the paths [rows], their values (see NextToken) and attention [rows, H, S]."""
        mean = None if attention is None else attention.float().mean(1).cpu()  # [rows, S]
        self.steps.append(_HistoryStep(path.cpu(), token.cpu(), value, mean))

    def end(self, path: Tensor, length: int, forced: Tensor) -> None:
        """The paths [rows] end with `length` tokens; `forced` [rows]: without choosing the end of sentence freely."""
        self.lengths[path.cpu()] = length
        self.forced[path.cpu()] = forced.cpu()

    def hypotheses(self, penalty: LengthPenalty, *, with_log_probs: bool) -> list[Hypothesis]:
        """The hypotheses of all paths; `with_log_probs`: the values are log-probabilities."""
        tokens = torch.zeros(self.num_paths, len(self.steps), dtype=torch.int64)
        log_probs = torch.full((self.num_paths, len(self.steps)), math.nan)
        for t, step in enumerate(self.steps):
            tokens[step.path, t] = step.token
            if with_log_probs:
                log_probs[step.path, t] = step.value.cpu()
        failed = torch.zeros_like(self.forced)  # paths with NaN or +inf up to their end; -inf is a forced token
        values = [step.value for step in self.steps]
        if values and not bool((torch.cat(values) < math.inf).all()):  # one check for all steps
            for t, step in enumerate(self.steps):
                failed[step.path] |= ~(step.value.cpu() < math.inf) & (t <= self.lengths[step.path])
        lengths = self.lengths.tolist()
        token_log_probs = [row[: length + 1] for row, length in zip(log_probs.tolist(), lengths, strict=True)]
        # A path that ended before the model was asked for the end of sentence has no log-probability.
        total = [
            math.fsum(row) if len(row) == length + 1 else math.nan
            for row, length in zip(token_log_probs, lengths, strict=True)
        ]
        score = penalty.score(torch.tensor(total), self.lengths + 1).tolist()
        has_failed, forced = failed.tolist(), self.forced.tolist()
        return [
            Hypothesis(
                tokens=row[:length],
                log_prob=total[path],
                score=score[path],
                token_log_probs=token_log_probs[path],
                finished=not forced[path],
                attention=self._attention(path, length),
                failed=has_failed[path],
            )
            for path, (row, length) in enumerate(zip(tokens.tolist(), lengths, strict=True))
        ]

    def _attention(self, path: int, length: int) -> Tensor | None:
        """[T, S], or None if no attention was recorded."""
        if not self.steps or self.steps[0].attention is None:
            return None
        rows = [step.attention[step.path == path] for step in self.steps[:length] if step.attention is not None]
        return torch.cat([self.steps[0].attention[:0], *rows])


class _PathRun(SearchRun):
    """One search; the beams of a sentence are its paths."""

    def __init__(self, search: SinglePathSearch, stepper: Stepper, request: SearchRequest) -> None:
        super().__init__(search.settings, stepper, request, beams_per_sentence=search.num_paths)
        self.choose = search.choose
        self.with_log_probs = search.settings.with_log_probs or search.num_paths > 1  # several are ranked
        self.computes_log_probs = self.with_log_probs or bool(self.constraints)  # constraints work on them
        self.history = _PathHistory(self.num_beams)

    def run(self) -> None:
        """Extend all paths by one token after another, until every path has ended."""
        state = self.start()
        path = torch.arange(self.num_beams, device=self.device)  # [rows] index of each row's path
        token = torch.full_like(path, self.settings.special_ids.bos)
        tokens = token.new_zeros(path.numel(), 0)  # [rows, t], grown only if there are constraints, which need it
        finished = torch.zeros_like(path, dtype=torch.bool)  # ended, but still in the batch
        length = 0
        while path.numel():
            at_limit = length >= self.max_length[path]
            # Where the end is forced for all and its log-probability is not requested, the last step is skipped.
            check_limit = not (self.with_log_probs or length in self.unconstrained_lengths)
            if check_limit and bool((finished | at_limit).all()):
                self.history.end(path[~finished], length, at_limit[~finished])
                return
            step = self.stepper.step(token, state)
            state = step.state
            # So few rows at a time that their logits stay in the processor's cache until the token is chosen.
            chunks = [
                self._choose(step, rows, path[rows], tokens[rows], at_limit[rows])
                for rows in row_chunks(path.numel(), path.device)
            ]
            chosen = chunks[0] if len(chunks) == 1 else NextToken(*map(torch.cat, zip(*chunks, strict=True)))
            token = chosen.token
            attention = step.attention if self.settings.with_attention else None
            self.history.add(path, token, chosen.value, attention)
            if self.constraints:
                tokens = torch.cat([tokens, token.unsqueeze(1)], dim=1)
            length += 1
            ended = (chosen.token == self.eos) & ~finished
            if not bool(ended.any()):
                continue
            self.history.end(path[ended], length - 1, chosen.forced[ended])
            finished = finished | ended
            # A sentence leaves the batch with all its paths at once, so that each keeps the same number of rows.
            sentences = finished.view(-1, self.beams_per_sentence).all(1)  # [B]
            if bool(sentences.all()):
                return
            order = compaction_order(sentences)
            if order is not None:
                state = state.keep_sentences(order)
                rows = self.beams_of(order)
                path, token, tokens, finished = path[rows], token[rows], tokens[rows], finished[rows]

    def _choose(self, step: DecoderStep, rows: slice, path: Tensor, tokens: Tensor, at_limit: Tensor) -> NextToken:
        """The next tokens according to the logits of these rows [n, V], which are overwritten."""
        logits = step.logits(rows)
        eos, sentence = self.eos, path // self.beams_per_sentence
        model_logits = logits
        normaliser = log_normaliser(logits) if self.computes_log_probs else None  # [n]
        if self.constraints and normaliser is not None:
            hypotheses = PartialHypotheses(tokens, sentence, step.language_model_log_probs(rows))
            model_logits, logits = self.constrain(logits, normaliser, hypotheses)  # [n, V]
            normaliser = torch.zeros_like(normaliser)
        # The log-probability of the end of sentence is needed also where it is not allowed, which overwrites it below.
        end = model_logits[:, eos].clone()  # [n]
        logits.index_fill_(1, self.banned, float("-inf"))
        length = len(self.history.steps)
        is_limited = bool(self.constraints) or length not in self.unconstrained_lengths
        if is_limited:
            too_short = length < self.min_length[path]
            logits[:, eos] = logits[:, eos].masked_fill(too_short, float("-inf"))
        key = SampleKey(self.request.sentence_ids[sentence], path % self.beams_per_sentence, length)
        (token, value), forced = self.choose(logits, key), at_limit
        if is_limited:
            # The end is forced at the maximum length, and where the constraints allow nothing at all.
            forced = at_limit | (value == float("-inf"))
            token = torch.where(forced, eos, token)
        if normaliser is None:
            return NextToken(token, value, forced)
        value = torch.where(token == eos, end, model_logits.gather(1, token.unsqueeze(1)).squeeze(1))
        return NextToken(token, value.float() - normaliser, forced)


SPLITMIX64 = (-7046029254386353131, -4658895280553007687, -7723592293110705685)  # its constants as signed integers


class Truncation(Protocol):
    """Decides which tokens of a distribution are sampled from; the most probable one always is."""

    def __call__(self, prob: Tensor, mass_before: Tensor) -> Tensor:
        """Bool, tokens that are kept; all [rows, V], of tokens in descending order of probability.

        Args:
            prob: probabilities before truncation.
            mass_before: sums of the probabilities of all more probable tokens.
        """


@dataclass(frozen=True)
class NucleusTruncation:
    """The smallest set of tokens with this mass (Holtzman et al. 2020); 1: all."""

    mass: float

    def __call__(self, prob: Tensor, mass_before: Tensor) -> Tensor:
        """See Truncation."""
        return mass_before < self.mass


@dataclass(frozen=True)
class EpsilonTruncation:
    """Tokens with at least this probability, epsilon sampling (Hewitt et al. 2022); 0: all."""

    epsilon: float

    def __call__(self, prob: Tensor, mass_before: Tensor) -> Tensor:
        """See Truncation."""
        return prob >= self.epsilon


@dataclass(frozen=True)
class TopKTruncation:
    """The most probable tokens (Fan et al. 2018)."""

    count: int

    def __call__(self, prob: Tensor, mass_before: Tensor) -> Tensor:
        """See Truncation."""
        return torch.arange(prob.size(1), device=prob.device).lt(self.count).expand_as(prob)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Sample tokens from softmax(logits / temperature), truncated and renormalised.

    The random number of each choice is a function of (seed, sentence, path, step) alone, so that it does not depend on
    batches, their order or the number of workers.

    Attributes:
        temperature: divides the logits.
        truncations: a token is kept if all of them keep it.
        seed: of the random numbers.
    """

    temperature: float
    truncations: tuple[Truncation, ...]
    seed: int

    def __call__(self, logits: Tensor, key: SampleKey) -> tuple[Tensor, Tensor]:
        """See TokenChooser; inverse transform sampling."""
        prob, column = self.distribution(logits)
        cumulative = prob.cumsum(1)  # [rows, V]
        threshold = uniform(self.seed, key).unsqueeze(1) * cumulative[:, -1:]  # [rows, 1]
        index = torch.searchsorted(cumulative, threshold, right=True).clamp(max=prob.size(1) - 1)
        last = (prob > 0).sum(1, keepdim=True) - 1  # rounding can lead past the last token that is allowed
        chosen = column.gather(1, torch.minimum(index, last.clamp(min=0)))  # [rows, 1]; NaN comes first
        return chosen.squeeze(1), logits.gather(1, chosen).squeeze(1)

    def distribution(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities [rows, V] after truncation, not renormalised, most probable first, and their columns."""
        scaled, column = (logits.double() / self.temperature).sort(dim=1, descending=True, stable=True)
        prob = scaled.softmax(1)  # [rows, V]
        mass_before = prob.cumsum(1) - prob  # mass of all tokens that are more probable
        keep = torch.ones_like(prob, dtype=torch.bool)
        for truncation in self.truncations:
            keep &= truncation(prob, mass_before)
        keep[:, 0] = True
        return prob * keep, column


def uniform(seed: int, key: SampleKey) -> Tensor:
    """A number in [0, 1) for each row, [rows] float64: splitmix64 (Steele et al. 2014) of seed and key."""
    increment, first, second = SPLITMIX64
    state = torch.full_like(key.sentence_id, seed)
    for part in (key.sentence_id, key.path, torch.full_like(key.sentence_id, key.step)):
        state = state + part * increment + increment
        for shift, factor in ((30, first), (27, second)):  # splitmix64's finaliser, in signed arithmetic
            high = (state >> shift) & ((1 << (64 - shift)) - 1)  # >> of a signed number fills with its sign
            state = (state ^ high) * factor
        state = state ^ ((state >> 31) & ((1 << 33) - 1))
    return (state >> 11).bitwise_and((1 << 53) - 1).double() / (1 << 53)
