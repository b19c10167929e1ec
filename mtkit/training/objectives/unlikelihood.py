"""Unlikelihood training: what was said already must become less likely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import in_chunks, log_probs
from mtkit.training.decoder_inputs.interface import DecoderInput
from mtkit.training.objectives.interface import Parts

LEAST = 1e-5  # of 1 - p, so that its logarithm is finite (the authors' code does the same)


class Unlikelihood:
    """Cross-entropy plus weight times -log(1 - p(c)) of every piece c that the sentence had before, the true one apart.

    Welleck et al. 2020, eq. 2 and 5 (token level). https://arxiv.org/abs/1908.04319

    Args:
        decoder_input: what the decoder reads.
        smoothing: label smoothing of the cross-entropy.
        weight: the paper's alpha.
    """

    def __init__(self, decoder_input: DecoderInput, smoothing: float, weight: float) -> None:
        self.decoder_input = decoder_input
        self.smoothing = smoothing
        self.weight = weight

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the scored positions, and the weighted second term in it as `unlikelihood`."""
        hidden = self.decoder_input(model, batch)  # [N, D]
        sentence, column = batch.scored.nonzero(as_tuple=True)  # [N]
        target, labels = batch.labels[sentence, column], batch.labels[sentence]  # [N], [N, T]
        columns = torch.arange(labels.size(1), device=labels.device)
        earlier = batch.scored[sentence] & (columns < column.unsqueeze(1))  # [N, T]
        both = torch.stack(in_chunks(partial(self._terms, model), hidden, target, labels, earlier)).sum(0)  # [2]
        return Losses(both.sum(), target.numel(), {"unlikelihood": both[1].detach()})

    def set_update(self, update: int) -> None:
        """Tell the decoder input."""
        self.decoder_input.set_update(update)

    def _terms(
        self, model: TranslationModel, hidden: Tensor, target: Tensor, labels: Tensor, earlier: Tensor
    ) -> Tensor:
        """Cross-entropy and weighted unlikelihood of n positions, [2]; labels and whether each is earlier [n, T]."""
        found = log_probs(model.output, hidden)  # [n, V]
        right = found.gather(1, target.unsqueeze(1)).sum()
        cross_entropy = -(1 - self.smoothing) * right - self.smoothing / found.size(1) * found.sum()
        said = torch.zeros_like(found).scatter_add_(1, labels, earlier.to(found.dtype))  # [n, V]
        negative = (said > 0).scatter(1, target.unsqueeze(1), False)  # [n, V]
        unlikely = -(1 - found[negative].exp()).clamp(min=LEAST).log().sum()
        return torch.stack([cross_entropy, self.weight * unlikely])


@dataclass(frozen=True, kw_only=True)
class UnlikelihoodConfig:
    """What was said already must become less likely (see Unlikelihood); against repetitions."""

    kind: Literal["unlikelihood"] = "unlikelihood"
    weight: Annotated[float, Field(ge=0)] = 1.0  # the paper's alpha, sec. 5

    def build(self, parts: Parts) -> Unlikelihood:
        """The objective."""
        return Unlikelihood(parts.decoder_input, parts.smoothing, self.weight)
