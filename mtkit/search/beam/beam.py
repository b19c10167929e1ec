"""Batched beam search over `start` and `step`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from mtkit.search.beam.coverage import Coverage
from mtkit.search.beam.finished import Ended, Pool
from mtkit.search.beam.selection import Best, Selection
from mtkit.search.beam.state import Candidates, Choice, Live
from mtkit.search.compaction import closed_up, many, members
from mtkit.search.constraints.constraint import Constraint, Prefixes, apply
from mtkit.search.fast_topk import log_normaliser, parts, top_columns, with_columns
from mtkit.search.interface import Columns, Hypothesis, Request, State, Step, Stepper, Symbols
from mtkit.search.length_penalty import LengthPenalty


class _Seen(NamedTuple):
    """What is kept of the logits of some hypotheses: the K best extensions of each, or of each of n beams."""

    value: Tensor  # [n, K] logits
    row: Tensor  # [n, K] which hypothesis of the batch
    column: Tensor  # [n, K]
    value_own: Tensor  # [n, K] the model's own, without constraints
    normaliser: Tensor  # [rows] what turns these values into log-probabilities
    end: Tensor  # [rows] log-probability of the end of sentence
    end_own: Tensor  # [rows] the model's own


@dataclass(frozen=True, kw_only=True)
class BeamSearch:
    """Keeps the `beam_size` best prefixes of each sentence at each length.

    The end of sentence competes with all other extensions for the `beam_size` best places, but does not use up a
    place. A sentence is done when `patience` · beam_size hypotheses have ended (Kasai et al. 2022,
    https://arxiv.org/abs/2204.05424; 1 is what most toolkits do, infinity is exact), or when no living one can still
    enter the n best, by the length penalty's bound. With room for all prefixes and infinite patience the result is that
    of trying every sentence.

    Attributes:
        beam_size: W, of all groups of `selection` together.
        n_best: hypotheses given back for each sentence; at most W.
        symbols: ids with a meaning.
        penalty: turns log-probabilities into scores.
        patience: see above.
        constraints: applied to the log-probabilities of what may come next.
        selection: which extensions live on.
        coverage: added to the scores, or None.
        with_attention: give attention with the hypotheses.
    """

    beam_size: int
    n_best: int
    symbols: Symbols
    penalty: LengthPenalty
    patience: float = 1.0
    constraints: tuple[Constraint, ...] = ()
    selection: Selection = Best()  # noqa: RUF009 (frozen)
    coverage: Coverage | None = None
    with_attention: bool = False

    @torch.inference_mode()
    def __call__(self, stepper: Stepper, request: Request) -> list[list[Hypothesis]]:
        """The n best hypotheses of each sentence, best first; at least one each."""
        return _Run(self, stepper, request).run() if request.num_sentences else []


class _Run:
    """One search: what does not change during it, and the pool."""

    def __init__(self, search: BeamSearch, stepper: Stepper, request: Request) -> None:
        self.search = search
        self.stepper = stepper
        self.request = request
        self.selection = request.selection or search.selection
        self.groups = self.selection.groups
        self.width = search.beam_size // self.groups  # hypotheses of one beam
        self.constraints = (*search.constraints, *request.constraints)
        self.max_length = request.max_length.repeat_interleave(self.groups)  # [beams]
        self.min_length = torch.minimum(request.min_length, request.max_length).repeat_interleave(self.groups)
        device = self.max_length.device
        self.narrow = Columns(search.symbols, request.columns, device)
        self.columns = Columns(search.symbols, None, device) if self.constraints else self.narrow
        self.no_extension = torch.cat([self.columns.banned, self.columns.banned.new_tensor([self.columns.eos])])
        self.between = range(int(self.min_length.max()), int(self.max_length.min()))  # lengths that no limit concerns
        self.pool = Pool(self.max_length.numel(), min(search.n_best, self.width))

    def run(self) -> list[list[Hypothesis]]:
        """Extend all beams by one token, until every sentence is done."""
        device = self.max_length.device
        state: State = self.stepper.start(self.request.source, self.request.columns)
        if self.groups > 1:
            state = state.select_rows(torch.arange(state.num_rows, device=device).repeat_interleave(self.groups))
        live = Live.first(self.max_length.numel(), device)
        token = torch.full((live.num_beams,), self.search.symbols.bos, device=device)
        covered: Tensor | None = None  # [N·W, S] attention received so far
        while live.num_beams:
            step = self.stepper.step(token, state)
            if self.search.with_attention:
                self.pool.attend(step.attention)
            if self.search.coverage is not None:
                covered = self.search.coverage.add(covered, step.attention)
            candidates = self._expand(step, live)
            place = self.selection.choose(candidates, live, self.width)  # [N, W']
            choice, parent = candidates.take(place)
            done = self._end(candidates, choice, live, covered)  # [N]
            rows = live.rows_of(parent)  # [N·W']
            one = live.width == parent.size(1) == 1  # there is nothing to reorder
            state = step.state if one else step.state.select_rows(rows)
            live = live.extend(rows, choice)
            if bool(done.any()):
                live, state = self._leave(live, state, done)
            covered = None if covered is None else covered.index_select(0, live.origin[:, -1])
            token = live.tokens[:, -1]
        return [self._best(sentence) for sentence in range(self.request.num_sentences)]

    def _expand(self, step: Step, live: Live) -> Candidates:
        """The best extensions of every beam; limits of length are seen to here."""
        wanted = self.selection.wanted(live)  # [rows, E] or None
        found = [
            self._look(step.logits(rows), live, rows, None if wanted is None else wanted[rows])
            for rows in parts(live.tokens.size(0), live.beam.device, live.width)
        ]
        seen = found[0] if len(found) == 1 else _Seen(*(torch.cat(each) for each in zip(*found, strict=True)))
        best = self._candidates(seen, live)
        if live.length in self.between:
            return best
        at_limit = (live.length >= self.max_length[live.beam]).unsqueeze(1)  # [N, 1]
        too_short = (live.length < self.min_length[live.beam]).unsqueeze(1)
        return best._replace(
            log_prob=best.log_prob.masked_fill(at_limit, float("-inf")),
            end_log_prob=best.end_log_prob.masked_fill(too_short, float("-inf")),
        )

    def _look(self, logits: Tensor, live: Live, rows: slice, wanted: Tensor | None) -> _Seen:
        """The best of these logits [rows, V or C] of the hypotheses `rows`; they are written into."""
        columns, width = self.columns, live.width
        normaliser = log_normaliser(logits)  # [rows]
        own = logits
        if self.constraints:
            own = self.narrow.widen(logits.float() - normaliser.unsqueeze(1), self.search.symbols.size)  # [rows, V]
            normaliser = torch.zeros_like(normaliser)
            sentence = live.beam.repeat_interleave(width)[rows] // self.groups
            logits = apply(self.constraints, Prefixes(live.tokens[rows], sentence), own)
        end_own = own[:, columns.eos].float() - normaliser  # [rows]
        end = logits[:, columns.eos].float() - normaliser if self.constraints else end_own
        logits.index_fill_(1, self.no_extension, float("-inf"))
        offset = live.log_prob.flatten()[rows] - normaliser
        together = width if self.selection.of_beam else 1
        top = top_columns(logits, self.selection.count(self.width), offset, together)
        if wanted is not None:
            top = with_columns(top, logits, wanted)
        row = top.row + torch.arange(0, logits.size(0), together, device=logits.device).unsqueeze(1)  # [n, K]
        value_own = own[row, top.column].float() if self.constraints else top.value
        return _Seen(top.value, row + rows.start, top.column, value_own, normaliser, end, end_own)

    def _candidates(self, seen: _Seen, live: Live) -> Candidates:
        """What was seen as extensions of beams."""
        width, so_far, normaliser = live.width, live.log_prob.flatten(), seen.normaliser[seen.row]
        beams = (live.num_beams, -1)  # [N, M]
        return Candidates(
            log_prob=(so_far[seen.row] + (seen.value - normaliser)).view(beams),
            token=self.columns.to_ids(seen.column).view(beams),
            piece_log_prob=(seen.value_own - normaliser).view(beams),
            parent=(seen.row % width).view(beams),
            end_log_prob=(so_far + seen.end).view(-1, width),
            end_piece_log_prob=seen.end_own.view(-1, width),
        )

    def _end(self, candidates: Candidates, choice: Choice, live: Live, covered: Tensor | None) -> Tensor:
        """Put the hypotheses that end now into the pool; which beams [N] are done, with all of their sentence?"""
        search, pool = self.search, self.pool
        end, beam = candidates.end_log_prob, live.beam
        rivals = torch.cat([choice.log_prob, end], dim=1).unsqueeze(1)  # [N, 1, W' + W]
        better = (rivals > end.unsqueeze(2)).sum(2)  # [N, W]
        ends = (better < self.width) & (end > float("-inf"))  # [N, W]
        best = choice.log_prob.amax(1)  # [N]
        dead = best == float("-inf")  # [N]
        forced = dead & ~ends.any(1)  # [N]
        if bool(forced.any()):
            forced &= (pool.count[beam.cpu()] == 0).to(beam.device)
            ends |= forced.unsqueeze(1) & (live.log_prob != float("-inf"))
            end = torch.where(forced.unsqueeze(1), live.log_prob + candidates.end_piece_log_prob, end)
        rows = ends.flatten().nonzero().squeeze(1)  # [M]
        longest = self.max_length[beam]  # [N]
        if rows.numel():
            score = search.penalty.score(end.flatten()[rows], torch.full_like(rows, live.length + 1))
            if covered is not None and search.coverage is not None and self.request.real is not None:
                real = self.request.real[beam[rows // live.width] // self.groups]  # [M, S]
                score = score + search.coverage.penalty(covered[rows], real)
            limited = forced | (live.length >= longest)  # [N]
            own = candidates.end_piece_log_prob.flatten()[rows]
            pool.add(Ended(live, rows, own, score, ~limited[rows // live.width]))
        shortest = torch.full_like(longest, live.length + 2)
        bound = search.penalty.bound(best, shortest, longest + 1).cpu()
        beam = beam.cpu()
        enough = (pool.count[beam] >= search.patience * self.width) | (bound <= pool.worst[beam])
        done = dead | enough.to(dead.device)
        if self.groups == 1:
            return done
        return done.view(-1, self.groups).all(1).repeat_interleave(self.groups)  # groups look at each other

    def _leave(self, live: Live, state: State, done: Tensor) -> tuple[Live, State]:
        """Without the beams that are done [N], if they are many; else these are dead."""
        if not many(done):
            return replace(live, log_prob=live.log_prob.masked_fill(done.unsqueeze(1), float("-inf"))), state
        stay = closed_up(done[:: self.groups])  # [M]
        live = live.keep(members(stay, self.groups))
        return live, state.keep_sentences(stay) if live.num_beams else state

    def _best(self, sentence: int) -> list[Hypothesis]:
        """The n best of all the groups of a sentence, each text once."""
        beams = range(sentence * self.groups, (sentence + 1) * self.groups)
        found = sorted((h for beam in beams for h in self.pool.best(beam)), key=lambda h: -h.score)
        first = {tuple(h.tokens): h for h in reversed(found)}
        unique = [h for h in found if first[tuple(h.tokens)] is h]
        return unique[: self.search.n_best]
