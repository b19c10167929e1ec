"""Search that never turns back: each hypothesis follows one path, of the most probable pieces or of drawn ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from mtkit.search.compaction import closed_up, many, members
from mtkit.search.constraints.constraint import Constraint, Prefixes, apply
from mtkit.search.fast_topk import log_normaliser, parts, top_columns
from mtkit.search.interface import Columns, Hypothesis, Request, State, Step, Stepper, Symbols
from mtkit.search.length_penalty import LengthPenalty


class Place(NamedTuple):
    """Where in the request and in its hypothesis a piece is chosen; the same in every batch."""

    line: Tensor  # [rows] of the request's `lines`
    path: Tensor  # [rows] number of the hypothesis of its sentence
    step: int


class Chosen(NamedTuple):
    """What comes next, for each row."""

    column: Tensor  # [rows]
    log_prob: Tensor | None  # [rows] the model's own, nats, if it is wanted
    forced: Tensor  # [rows] bool, nothing was left but to end


class Pick(Protocol):
    """Chooses the next piece of each hypothesis."""

    def __call__(self, logits: Tensor, place: Place) -> Tensor:
        """Columns [rows] of `logits` [rows, C]; forbidden ones are -inf."""


def most_probable(logits: Tensor, place: Place) -> Tensor:
    """Greedy search."""
    return top_columns(logits, 1).column.squeeze(1)


@dataclass(frozen=True, kw_only=True)
class Walk:
    """One path for each hypothesis.

    Attributes:
        symbols: ids with a meaning.
        pick: chooses the next piece.
        penalty: scores the ended hypotheses.
        paths: hypotheses walked for each sentence (more than one make sense only if `pick` draws).
        n_best: hypotheses given back for each sentence, at most `paths`.
        constraints: applied to the log-probabilities of what may come next.
        with_log_probs: without them (NaN) greedy search is spared a pass over the logits of every step.
        with_attention: give attention with the hypotheses.
    """

    symbols: Symbols
    penalty: LengthPenalty
    pick: Pick = most_probable
    paths: int = 1
    n_best: int = 1
    constraints: tuple[Constraint, ...] = ()
    with_log_probs: bool = True
    with_attention: bool = False

    @torch.inference_mode()
    def __call__(self, stepper: Stepper, request: Request) -> list[list[Hypothesis]]:
        """The n best hypotheses of each sentence by score, at least one each; drawn ones may be equal."""
        if not request.num_sentences:
            return []
        run = _Run(self, request)
        run.follow(stepper)
        found = run.trail.hypotheses(self.penalty)
        sentences = [found[i * self.paths : (i + 1) * self.paths] for i in range(request.num_sentences)]
        return [sorted(paths, key=lambda h: -h.score)[: self.n_best] for paths in sentences]


class _Trail:
    """What was chosen at each step, and for which path."""

    def __init__(self, num_paths: int) -> None:
        self.num_paths = num_paths
        self.lengths = torch.zeros(num_paths, dtype=torch.int64)
        self.forced = torch.zeros(num_paths, dtype=torch.bool)
        self.steps: list[tuple[Tensor, Tensor, Tensor | None, Tensor | None]] = []

    def add(self, path: Tensor, token: Tensor, log_prob: Tensor | None, attention: Tensor | None) -> None:
        """The tokens [rows] chosen for the paths [rows]."""
        mean = None if attention is None else attention.float().mean(1)  # [rows, S]
        own = None if log_prob is None else log_prob.cpu()
        self.steps.append((path.cpu(), token.cpu(), own, None if mean is None else mean.cpu()))

    def hypotheses(self, penalty: LengthPenalty) -> list[Hypothesis]:
        """All paths, ended."""
        tokens = torch.zeros(self.num_paths, len(self.steps), dtype=torch.int64)
        log_probs = torch.full((self.num_paths, len(self.steps)), math.nan)
        for t, (paths, token, log_prob, _) in enumerate(self.steps):
            tokens[paths, t] = token
            if log_prob is not None:
                log_probs[paths, t] = log_prob
        lengths = self.lengths.tolist()
        pieces = [row[: length + 1] for row, length in zip(log_probs.tolist(), lengths, strict=True)]
        total = [
            math.fsum(row) if len(row) == length + 1 else math.nan for row, length in zip(pieces, lengths, strict=True)
        ]
        score = penalty.score(torch.tensor(total), self.lengths + 1).tolist()
        forced = self.forced.tolist()
        return [
            Hypothesis(
                tokens=row[:length],
                log_prob=total[path],
                score=score[path],
                piece_log_probs=pieces[path],
                finished=not forced[path],
                attention=self._attention(path, length),
            )
            for path, (row, length) in enumerate(zip(tokens.tolist(), lengths, strict=True))
        ]

    def _attention(self, path: int, length: int) -> Tensor | None:
        if not self.steps or self.steps[0][3] is None:
            return None
        rows = [step[3][step[0] == path] for step in self.steps[:length] if step[3] is not None]
        return torch.cat([self.steps[0][3][:0], *rows])  # [T, S]


class _Run:
    """One search: what does not change during it, and the trail."""

    def __init__(self, search: Walk, request: Request) -> None:
        self.search = search
        self.request = request
        self.constraints = (*search.constraints, *request.constraints)
        self.max_length = request.max_length.repeat_interleave(search.paths)  # [all paths]
        self.min_length = torch.minimum(request.min_length, request.max_length).repeat_interleave(search.paths)
        device = self.max_length.device
        self.narrow = Columns(search.symbols, request.columns, device)
        self.columns = Columns(search.symbols, None, device) if self.constraints else self.narrow
        self.between = range(int(self.min_length.max()), int(self.max_length.min()))  # lengths that no limit concerns
        self.greedy = search.pick is most_probable and not (search.with_log_probs or self.constraints)
        self.trail = _Trail(self.max_length.numel())

    def follow(self, stepper: Stepper) -> None:
        """Choose piece after piece until every path has ended."""
        search, paths = self.search, self.search.paths
        device = self.max_length.device
        state: State = stepper.start(self.request.source, self.request.columns)
        if paths > 1:
            state = state.select_rows(torch.arange(state.num_rows, device=device).repeat_interleave(paths))
        path = torch.arange(self.max_length.numel(), device=device)  # [rows]
        token = torch.full_like(path, search.symbols.bos)
        tokens = token.new_zeros(path.numel(), 0)  # [rows, t], for constraints
        over = torch.zeros_like(path, dtype=torch.bool)  # ended, and not yet gone
        step_number = 0
        while path.numel():
            at_limit = step_number >= self.max_length[path]
            if not (search.with_log_probs or step_number in self.between) and bool((over | at_limit).all()):
                self._end(path[~over], step_number, at_limit[~over])
                return
            step = stepper.step(token, state)
            state = step.state
            chosen = self._choose(step, path, tokens, at_limit)
            token = self.columns.to_ids(chosen.column)
            self.trail.add(path, token, chosen.log_prob, step.attention if search.with_attention else None)
            if self.constraints:
                tokens = torch.cat([tokens, token.unsqueeze(1)], dim=1)
            step_number += 1
            ended = (chosen.column == self.columns.eos) & ~over
            if not bool(ended.any()):
                continue
            self._end(path[ended], step_number - 1, chosen.forced[ended])
            over = over | ended
            left = over.view(-1, paths).all(1)  # [B]
            if bool(left.all()):
                return
            if many(left):
                stay = closed_up(left)
                state = state.keep_sentences(stay)
                rows = members(stay, paths)
                path, token, tokens, over = path[rows], token[rows], tokens[rows], over[rows]

    def _choose(self, step: Step, path: Tensor, tokens: Tensor, at_limit: Tensor) -> Chosen:
        """What comes next, for each row."""
        if self.greedy and len(self.trail.steps) in self.between:
            column = step.argmax(self.columns.banned)
            if column is not None:
                return Chosen(column, None, at_limit)
        found = [
            self._choose_from(step.logits(rows), path[rows], tokens[rows], at_limit[rows])
            for rows in parts(path.numel(), path.device)
        ]
        if len(found) == 1:
            return found[0]
        columns, log_prob, forced = zip(*found, strict=True)
        return Chosen(torch.cat(columns), None if log_prob[0] is None else torch.cat(log_prob), torch.cat(forced))

    def _choose_from(self, logits: Tensor, path: Tensor, tokens: Tensor, at_limit: Tensor) -> Chosen:
        """What comes next by these logits [rows, V or C], which are written into."""
        columns, search = self.columns, self.search
        own = logits
        normaliser = log_normaliser(logits) if search.with_log_probs or self.constraints else None  # [rows]
        if self.constraints and normaliser is not None:
            own = self.narrow.widen(logits.float() - normaliser.unsqueeze(1), search.symbols.size)
            normaliser = torch.zeros_like(normaliser)
            logits = apply(self.constraints, Prefixes(tokens, path // search.paths), own).clone()
        elif search.with_log_probs:
            own = logits.clone() if len(columns.banned) else logits
        end = own[:, columns.eos].clone()  # [rows]
        logits.index_fill_(1, columns.banned, float("-inf"))
        length = len(self.trail.steps)
        limited = bool(self.constraints) or length not in self.between
        if limited:
            early = length < self.min_length[path]
            logits[:, columns.eos] = logits[:, columns.eos].masked_fill(early, float("-inf"))
        place = Place(self.request.lines[path // search.paths], path % search.paths, length)
        chosen, forced = self.search.pick(logits, place), at_limit
        if limited:
            forced = at_limit | (logits.gather(1, chosen.unsqueeze(1)).squeeze(1) == float("-inf"))
            chosen = torch.where(forced, columns.eos, chosen)
        if normaliser is None:
            return Chosen(chosen, None, forced)
        value = torch.where(chosen == columns.eos, end, own.gather(1, chosen.unsqueeze(1)).squeeze(1))
        return Chosen(chosen, value.float() - normaliser, forced)

    def _end(self, path: Tensor, length: int, forced: Tensor) -> None:
        self.trail.lengths[path.cpu()] = length
        self.trail.forced[path.cpu()] = forced.cpu()
