"""Beam search over `start` and `step`, batched over sentences; its stopping rules and the coverage penalty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from mtkit.errors import UsageError
from mtkit.search.beam_state import Extensions, ExtensionSelector, FinishedPool, LiveHypotheses, TopExtensions
from mtkit.search.constraints import PartialHypotheses
from mtkit.search.fast_topk import append_columns, log_normaliser, row_chunks, top_k
from mtkit.search.hypothesis import Hypothesis, SearchSettings
from mtkit.search.interface import (
    DecoderState,
    DecoderStep,
    Search,
    SearchRequest,
    SearchRun,
    Stepper,
    compaction_order,
)
from mtkit.search.length_penalty import LengthPenalty
from mtkit.search.single_path import SinglePathSearch


def build_beam_search(settings: SearchSettings, selector: ExtensionSelector) -> Search:
    """Beam search; greedy search for a beam of one hypothesis, which gives the same result with less work."""
    return SinglePathSearch(settings) if settings.config.is_single_path else BeamSearch(settings, selector)


@dataclass(frozen=True)
class BeamSearch:
    """Keeps the `beam_size` best hypotheses of each sentence at each length.

    The end of sentence competes with all other extensions for a rank among the `beam_size` best, but does not occupy
    a slot of the beam. A sentence is done when a stopping rule says so (see StoppingRule). With a beam that holds all
    hypotheses and infinite patience the result is that of exhaustive search.

    Attributes:
        settings: `beam_size` is W, that of all groups of the selector together; `n_best` is at most W.
        selector: selects the extensions that stay in the beam.
    """

    settings: SearchSettings
    selector: ExtensionSelector = TopExtensions()  # noqa: RUF009 (it has no state)

    @torch.inference_mode()
    def __call__(self, stepper: Stepper, request: SearchRequest) -> list[list[Hypothesis]]:
        """The n best hypotheses of each sentence, best first; at least one each."""
        return _BeamRun(self, stepper, request).run() if request.num_sentences else []


class _BeamRun(SearchRun):
    """One beam search; a sentence has a beam for each group of the selector."""

    def __init__(self, search: BeamSearch, stepper: Stepper, request: SearchRequest) -> None:
        self.selector = request.selector or search.selector
        super().__init__(search.settings, stepper, request, beams_per_sentence=self.selector.groups)
        config = search.settings.config
        self.penalty: LengthPenalty = config.penalty()
        self.stopping_rules: tuple[StoppingRule, ...] = config.stopping_rules()
        self.coverage = Coverage(config.coverage_penalty) if config.coverage_penalty else None
        self.width = config.beam_size // self.selector.groups  # hypotheses of one beam
        # hypotheses go on with any token except these; the end of sentence is handled apart
        self.no_extension = torch.cat([self.banned, self.banned.new_tensor([self.eos])])
        self.pool = FinishedPool(self.num_beams, min(config.num_kept, self.width))

    def run(self) -> list[list[Hypothesis]]:
        """Extend all beams by one token after another, until every sentence is done."""
        state = self.start()
        live = LiveHypotheses.first(self.num_beams, self.device)
        token = torch.full((live.num_beams,), self.settings.special_ids.bos, device=self.device)
        coverage: Tensor | None = None  # [N·W, S] attention received so far
        while live.num_beams:
            step = self.stepper.step(token, state)
            if self.settings.with_attention and step.attention is not None:
                self.pool.attention.append(step.attention.float().mean(1))  # [rows, S]
            if self.coverage is not None:
                coverage = self.coverage.add(coverage, step.attention)
            candidates = self._candidates(step, live)
            chosen = candidates.gather(self.selector.choose(candidates, live, self.width))  # [N, W']
            # Finished hypotheses are taken from `live` before it grows: the end of sentence extends the old ones.
            done = self._finish(chosen, live, coverage)  # [N]
            rows = live.rows_of(chosen.parent)  # [N·W']
            is_greedy = live.width == chosen.parent.size(1) == 1  # each row is its own parent: no reordering
            state = step.state if is_greedy else step.state.select_rows(rows)
            live = live.extend(rows, chosen)
            if bool(done.any()):
                live, state = self._remove(live, state, done)
            # The last source rows are the parents' rows in this step's order, also after compaction.
            coverage = None if coverage is None else coverage.index_select(0, live.source_rows[:, -1])
            token = live.tokens[:, -1]
        return [self._n_best(sentence) for sentence in range(self.request.num_sentences)]

    def _candidates(self, step: DecoderStep, live: LiveHypotheses) -> Extensions:
        """The best extensions of every beam, within the length limits."""
        required_ids = self.selector.required_ids(live)  # [rows, E] or None
        # Whole beams at a time, so few that their logits stay in the processor's cache until they are ranked.
        chunks = [
            self._score_rows(step, live, rows, None if required_ids is None else required_ids[rows])
            for rows in row_chunks(live.tokens.size(0), self.device, live.width)
        ]
        fields = chunks[0] if len(chunks) == 1 else [torch.cat(each) for each in zip(*chunks, strict=True)]
        best = Extensions(*(field.view(live.num_beams, -1) for field in fields))
        if live.length in self.unconstrained_lengths:
            return best
        at_limit = (live.length >= self.max_length[live.beam]).unsqueeze(1)  # [N, 1]
        too_short = (live.length < self.min_length[live.beam]).unsqueeze(1)
        return best._replace(
            log_prob=best.log_prob.masked_fill(at_limit, float("-inf")),
            end_log_prob=best.end_log_prob.masked_fill(too_short, float("-inf")),
        )

    def _score_rows(
        self, step: DecoderStep, live: LiveHypotheses, rows: slice, required_ids: Tensor | None
    ) -> Extensions:
        """The best extensions of the beams in `rows`.

        Returns:
            K extensions of each beam, or of each row if not `selector.per_beam`; the end of each row [n]. The fields
            get the shapes of Extensions when the chunks are joined.
        """
        log_prob = live.log_prob.flatten()[rows]  # [n]
        count, rows_per_beam = self.selector.num_candidates(self.width), live.width if self.selector.per_beam else 1
        logits = step.logits(rows)  # [n, V], overwritten below
        normaliser = log_normaliser(logits)  # [n]
        model_logits = logits
        if self.constraints:
            sentence = live.beam.repeat_interleave(live.width)[rows] // self.beams_per_sentence
            hypotheses = PartialHypotheses(live.tokens[rows], sentence, step.language_model_log_probs(rows))
            model_logits, logits = self.constrain(logits, normaliser, hypotheses)  # [n, V]
            normaliser = torch.zeros_like(normaliser)
        # The end of sentence is read here and then masked: it is always a candidate, outside the ranking.
        model_end = model_logits[:, self.eos].float() - normaliser  # [n]
        end = logits[:, self.eos].float() - normaliser if self.constraints else model_end
        logits.index_fill_(1, self.no_extension, float("-inf"))
        # The logits are ranked as they are: only the K best become log-probabilities, by an offset for each hypothesis.
        top = top_k(logits, count, log_prob - normaliser, rows_per_beam)
        if required_ids is not None:
            top = append_columns(top, logits, required_ids)
        value = model_logits[top.row, top.column].float() if self.constraints else top.value
        row_normaliser = normaliser[top.row]
        return Extensions(
            log_prob=log_prob[top.row] + (top.value - row_normaliser),
            token=top.column,
            token_log_prob=value - row_normaliser,
            parent=top.row % live.width,
            end_log_prob=log_prob + end,
            end_token_log_prob=model_end,
        )

    def _finish(self, chosen: Extensions, live: LiveHypotheses, coverage: Tensor | None) -> Tensor:
        """Add the hypotheses that end at this step to the pool; returns [N] bool, beams whose sentence is done."""
        beam, max_length = live.beam, self.max_length[live.beam]  # [N]
        best = chosen.log_prob.amax(1)  # [N]
        ends, end, forced = self._ends(chosen, live, best)
        rows = ends.flatten().nonzero().squeeze(1)  # [F]
        if rows.numel():
            score = self.penalty.score(end.flatten()[rows], torch.full_like(rows, live.length + 1))
            if coverage is not None and self.coverage is not None and self.request.real is not None:
                real = self.request.real[beam[rows // live.width] // self.beams_per_sentence]  # [F, S]
                score = score + self.coverage.penalty(coverage[rows], real)
            at_limit = forced | (live.length >= max_length)  # [N]
            model_end = chosen.end_token_log_prob.flatten()[rows]
            finished = ~at_limit[rows // live.width]
            self.pool.add(live, rows, end_token_log_prob=model_end, score=score, finished=finished)
        done = best == float("-inf")  # [N]
        if self.pool.has_finished:
            at_pool = beam.cpu()
            progress = BeamProgress(
                best=best.cpu(),
                num_ended=self.pool.count[at_pool],
                worst=self.pool.worst[at_pool],
                max_length=max_length.cpu(),
                length=live.length,
                width=self.width,
                penalty=self.penalty,
            )
            for rule in self.stopping_rules:
                done |= rule(progress).to(done.device)
        # A row of logits with NaN or infinity has a normaliser of NaN or +inf. The best extension [N] or the end [N, W]
        # is then NaN, since NaN ranks above all numbers.
        failed = (best + end.sum(1)).isnan()  # [N]
        if bool(failed.any()):
            failed &= (live.log_prob > float("-inf")).any(1)  # a beam that is done ignores what the model computes
            self.pool.failed.update(live.beam[failed].tolist())
            done |= failed
        if self.beams_per_sentence == 1:
            return done
        # The groups of a sentence look at each other's tokens and must stay until all of them are done.
        return done.view(-1, self.beams_per_sentence).all(1).repeat_interleave(self.beams_per_sentence)

    def _ends(self, chosen: Extensions, live: LiveHypotheses, best: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The hypotheses that end at this step.

        Args:
            chosen: the extensions that stay in the beam.
            live: the hypotheses before them.
            best: [N], the largest log-probability among `chosen`.

        Returns:
            [N, W] bool, whether each hypothesis ends; [N, W] its log-probability with the end; [N] bool, whether a beam
            is forced to end because no extension is left.
        """
        end = chosen.end_log_prob  # [N, W]
        # An end is among the best `width` if fewer than `width` of its competitors are better: the chosen extensions
        # and the ends of the other hypotheses. It takes no slot from them: `chosen` was selected without the ends.
        competitors = torch.cat([chosen.log_prob, end], dim=1).unsqueeze(1)  # [N, 1, W' + W]
        better = (competitors > end.unsqueeze(2)).sum(2)  # [N, W]
        ends = (better < self.width) & (end > float("-inf"))  # [N, W]
        # Constraints can leave neither an extension nor an end. Such a beam is ended anyway, at the log-probability
        # without constraints, unless a hypothesis of it has ended before: every sentence gets a translation.
        forced = (best == float("-inf")) & ~ends.any(1)  # [N]
        if bool(forced.any()):
            forced &= (self.pool.count[live.beam.cpu()] == 0).to(forced.device)
            ends |= forced.unsqueeze(1) & (live.log_prob != float("-inf"))
            end = torch.where(forced.unsqueeze(1), live.log_prob + chosen.end_token_log_prob, end)
        return ends, end, forced

    def _remove(self, live: LiveHypotheses, state: DecoderState, done: Tensor) -> tuple[LiveHypotheses, DecoderState]:
        """Remove the sentences whose beams are `done` [N] from the batch, or mark them dead while they are few."""
        order = compaction_order(done[:: self.beams_per_sentence])
        if order is None:
            return replace(live, log_prob=live.log_prob.masked_fill(done.unsqueeze(1), float("-inf"))), state
        live = live.keep_beams(self.beams_of(order))
        return live, state.keep_sentences(order) if live.num_beams else state

    def _n_best(self, sentence: int) -> list[Hypothesis]:
        """The n best hypotheses of all groups of a sentence; equal texts once."""
        beams = range(sentence * self.beams_per_sentence, (sentence + 1) * self.beams_per_sentence)
        hypotheses = sorted((h for beam in beams for h in self.pool.best(beam)), key=lambda h: -h.score)
        if any(h.failed for h in hypotheses):
            return [Hypothesis.failure()]
        unique: dict[tuple[int, ...], Hypothesis] = {}
        for hypothesis in hypotheses:
            unique.setdefault(tuple(hypothesis.tokens), hypothesis)
        return list(unique.values())[: self.settings.config.num_returned]


class BeamProgress(NamedTuple):
    """N beams of `width` hypotheses whose best live ones have t + 1 tokens."""

    best: Tensor  # [N] log-probability of the best live hypothesis
    num_ended: Tensor  # [N] hypotheses that have ended
    worst: Tensor  # [N] score that a further hypothesis must exceed; -inf while fewer than n_best have ended
    max_length: Tensor  # [N] maximum number of tokens
    length: int  # t
    width: int
    penalty: LengthPenalty


class StoppingRule(Protocol):
    """Decides which beams end."""

    def __call__(self, progress: BeamProgress) -> Tensor:
        """[N] bool, beams whose search ends."""


@dataclass(frozen=True)
class EnoughEnded:
    """`patience` · width hypotheses have ended (Kasai et al. 2022, https://arxiv.org/abs/2204.05424).

    Most toolkits use 1; infinity is exact.
    """

    patience: float

    def __call__(self, progress: BeamProgress) -> Tensor:
        """See StoppingRule."""
        return progress.num_ended >= self.patience * progress.width


@dataclass(frozen=True)
class BoundReached:
    """No live hypothesis can enter the n best: the bound of its score, with the end, is no better than the worst."""

    def __call__(self, progress: BeamProgress) -> Tensor:
        """See StoppingRule."""
        min_length = torch.full_like(progress.max_length, progress.length + 2)
        return progress.penalty.bound(progress.best, min_length, progress.max_length + 1) <= progress.worst


@dataclass(frozen=True)
class PresentScoreReached:
    """The best live hypothesis, scored as if it ended at its present length, is no better than the worst.

    This is the rule of the package transformers. It is not exact: a longer hypothesis can have a better score.
    """

    def __call__(self, progress: BeamProgress) -> Tensor:
        """See StoppingRule."""
        length = torch.full_like(progress.max_length, progress.length + 1)
        attainable: Tensor = progress.penalty.score(progress.best, length)
        return attainable <= progress.worst


MIN_COVERAGE = 1e-6  # lower bound before the logarithm, so that one unattended token does not decide the whole ranking


@dataclass(frozen=True)
class Coverage:
    """beta · sum over source tokens of log(min(attention received, 1)).

    Wu et al. 2016, equation 14. https://arxiv.org/abs/1609.08144. As in the paper, it ranks finished hypotheses; the
    selection of live ones ignores it. Attention is averaged over the heads that the model returns.
    """

    beta: float

    def add(self, coverage: Tensor | None, attention: Tensor | None) -> Tensor:
        """Attention received so far, [rows, S], including one more step.

        Args:
            coverage: [rows, S], attention received before this step; None at the first step.
            attention: [rows, H, S], attention weights of this step.

        Raises:
            UsageError: the model returns no attention.
        """
        if attention is None:
            raise UsageError("search.coverage_penalty: this model gives no attention over the source; set it to 0")
        mean = attention.float().mean(1)  # [rows, S]
        return mean if coverage is None else coverage + mean

    def penalty(self, coverage: Tensor, real: Tensor) -> Tensor:
        """Summand of the scores [rows], at most 0; `coverage` and `real` are [rows, S]."""
        log = coverage.clamp(min=MIN_COVERAGE, max=1.0).log()  # [rows, S]
        return self.beta * torch.where(real, log, 0.0).sum(1)
