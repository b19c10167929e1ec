"""Unlikelihood training: tokens that occurred earlier in the sentence become less likely."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import apply_chunked, log_probs
from mtkit.training.decoder_inputs.interface import DecoderInput

MIN_COMPLEMENT = 1e-5  # lower limit of 1 - p, so that its logarithm is finite (as in the authors' code)


class Unlikelihood:
    """Cross-entropy plus weight times -log(1 - p(c)) of every earlier token c of the sentence, except the true one.

    Welleck et al. 2020, eq. 2 and 5 (token level). https://arxiv.org/abs/1908.04319

    Args:
        decoder_input: determines the tokens that the decoder reads.
        smoothing: label smoothing of the cross-entropy.
        weight: the paper's alpha.
    """

    def __init__(self, decoder_input: DecoderInput, smoothing: float, weight: float) -> None:
        self.decoder_input = decoder_input
        self.smoothing = smoothing
        self.weight = weight

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the positions of `loss_mask`; its second term is logged as `unlikelihood`."""
        hidden = self.decoder_input(model, batch)  # [N, D]
        sentence, column = batch.loss_mask.nonzero(as_tuple=True)  # [N]
        target, labels = batch.labels[sentence, column], batch.labels[sentence]  # [N], [N, T]
        columns = torch.arange(labels.size(1), device=labels.device)
        is_earlier = batch.loss_mask[sentence] & (columns < column.unsqueeze(1))  # [N, T]
        terms = torch.stack(apply_chunked(partial(self._terms, model), hidden, target, labels, is_earlier)).sum(
            0
        )  # [2]
        return Losses(terms.sum(), target.numel(), {"unlikelihood": terms[1].detach()})

    def set_update(self, update: int) -> None:
        """Pass the update on to the decoder input."""
        self.decoder_input.set_update(update)

    def _terms(
        self, model: TranslationModel, hidden: Tensor, target: Tensor, labels: Tensor, is_earlier: Tensor
    ) -> Tensor:
        """Cross-entropy and weighted unlikelihood of n positions, [2]; labels and is_earlier are [n, T]."""
        log_prob = log_probs(model.output, hidden)  # [n, V]
        target_log_prob = log_prob.gather(1, target.unsqueeze(1)).sum()
        cross_entropy = -(1 - self.smoothing) * target_log_prob - self.smoothing / log_prob.size(1) * log_prob.sum()
        earlier_counts = torch.zeros_like(log_prob).scatter_add_(1, labels, is_earlier.to(log_prob.dtype))  # [n, V]
        negative = (earlier_counts > 0).scatter(1, target.unsqueeze(1), False)  # [n, V]
        unlikelihood = -(1 - log_prob[negative].exp()).clamp(min=MIN_COMPLEMENT).log().sum()
        return torch.stack([cross_entropy, self.weight * unlikelihood])
