"""Set-up that all search methods share: length limits, constraints, batch compaction."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mtkit.search.constraints import Constraint, Prefixes
from mtkit.search.hypothesis import SearchSettings
from mtkit.search.interface import DecoderState, Hypothesis, SearchRequest, Stepper

COMPACT_FRACTION = 32  # a batch is compacted when 1 in 32 sentences is finished: removing them costs time in each layer

Search = Callable[[Stepper, SearchRequest], list[list[Hypothesis]]]  # the n best hypotheses of each sentence


class SearchRun:
    """One search of one request; base class of the methods' runs.

    A sentence has `per_sentence` items: beams (diverse groups) or independent paths. Length limits are per item.

    Attributes:
        constraints: those of the search and of the request.
        max_length: [items] maximum number of tokens, the end of sentence not counted.
        min_length: [items] minimum number of tokens.
        eos: id of the end of sentence.
        banned: [N] ids that are never generated.
        unconstrained_lengths: lengths at which no length limit applies to any sentence, so that no step checks them.
    """

    def __init__(
        self, settings: SearchSettings, stepper: Stepper, request: SearchRequest, *, per_sentence: int
    ) -> None:
        self.settings = settings
        self.stepper = stepper
        self.request = request
        self.per_sentence = per_sentence
        self.constraints: tuple[Constraint, ...] = (*settings.config.constraints(), *request.constraints)
        self.max_length = request.max_length.repeat_interleave(per_sentence)  # [items]
        self.min_length = torch.minimum(request.min_length, request.max_length).repeat_interleave(per_sentence)
        self.device = self.max_length.device
        self.eos = settings.special_ids.eos
        self.banned = torch.tensor(settings.special_ids.banned, dtype=torch.int64, device=self.device)
        self.unconstrained_lengths = range(int(self.min_length.max()), int(self.max_length.min()))

    @property
    def num_items(self) -> int:
        """Beams or paths of all sentences."""
        return self.max_length.numel()

    def start(self) -> DecoderState:
        """Encode the sentences; the state has one row for each item."""
        state: DecoderState = self.stepper.start(self.request.source)
        if self.per_sentence > 1:
            rows = torch.arange(state.num_rows, device=self.device).repeat_interleave(self.per_sentence)
            state = state.select_rows(rows)
        return state

    def items_of(self, sentences: Tensor) -> Tensor:
        """Indices [B'·per_sentence] of the items of the sentences [B']."""
        return (
            sentences.unsqueeze(1) * self.per_sentence + torch.arange(self.per_sentence, device=self.device)
        ).flatten()

    def constrain(self, logits: Tensor, normaliser: Tensor, prefixes: Prefixes) -> tuple[Tensor, Tensor]:
        """Log-probabilities without and with constraints.

        Args:
            logits: [rows, V].
            normaliser: [rows], log sum exp of the logits.
            prefixes: the hypotheses that the logits extend.

        Returns:
            The model's log-probabilities and the constrained ones, both [rows, V]; possibly the same tensor.
        """
        log_prob = logits.float() - normaliser.unsqueeze(1)
        constrained = log_prob
        for constraint in self.constraints:
            constrained = constraint(prefixes, constrained)
        return log_prob, constrained


def compaction_order(finished: Tensor) -> Tensor | None:
    """Sentences that stay in the batch when those that are `finished` [B] are removed.

    The last sentences fill the gaps, so that the others keep their position and few have to be copied.

    Returns:
        Indices of the sentences that stay, in their new order [B']; None if too few are finished to be worth it.
    """
    if int(finished.sum()) * COMPACT_FRACTION < finished.numel():
        return None
    stay = (~finished).nonzero().squeeze(1)  # [B']
    order = torch.arange(stay.numel(), device=finished.device)
    gaps = finished[: stay.numel()].nonzero().squeeze(1)
    order[gaps] = stay[stay.numel() - gaps.numel() :]
    return order
