"""R-Drop (regularised dropout): two forward passes with different dropout masks must agree."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import apply_chunked, log_probs
from mtkit.training.decoder_inputs.interface import DecoderInput


class RDrop:
    """Half the loss of Liang et al. 2021, eq. 4: the mean cross-entropy of two passes, and their divergence.

    ½ (CE1 + CE2) + weight/4 (KL(P1 || P2) + KL(P2 || P1)). The paper has sums; half of them makes the loss per token
    comparable with that of other objectives. https://arxiv.org/abs/2106.14448

    Args:
        decoder_input: determines the tokens that the decoder reads, separately in each pass.
        smoothing: label smoothing of the cross-entropy.
        weight: the paper's alpha.
    """

    def __init__(self, decoder_input: DecoderInput, smoothing: float, weight: float) -> None:
        self.decoder_input = decoder_input
        self.smoothing = smoothing
        self.weight = weight

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the positions of `loss_mask`; its weighted divergence is logged as `kl`."""
        target = batch.labels[batch.loss_mask]  # [N]
        first, second = (self.decoder_input(model, batch) for _ in range(2))  # [N, D]
        terms = torch.stack(apply_chunked(partial(self._terms, model), first, second, target)).sum(0)  # [2]
        return Losses(terms.sum(), target.numel(), {"kl": terms[1].detach()})

    def set_update(self, update: int) -> None:
        """Pass the update on to the decoder input."""
        self.decoder_input.set_update(update)

    def _terms(self, model: TranslationModel, first: Tensor, second: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy and weighted divergence of n positions, [2]."""
        p, q = log_probs(model.output, first), log_probs(model.output, second)  # [n, V]
        mean = (p + q) / 2
        target_log_prob = mean.gather(1, target.unsqueeze(1)).sum()
        cross_entropy = -(1 - self.smoothing) * target_log_prob - self.smoothing / mean.size(1) * mean.sum()
        symmetric_kl = ((p.exp() - q.exp()) * (p - q)).sum()  # KL(P1 || P2) + KL(P2 || P1)
        return torch.stack([cross_entropy, self.weight / 4 * symmetric_kl])
