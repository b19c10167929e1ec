"""Distillation: a student learns from the distribution and the states of a teacher, besides the true tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import label_smoothed_loss
from mtkit.training.decoder_inputs.interface import DecoderInput
from mtkit.training.objectives.chunked_divergence import chunked_divergence


class Distillation:
    """hard · CE + soft · T² KL(P_teacher || P_student) + cosine · Σ (1 - cos(h_student, h_teacher)).

    The distributions of the divergence are softmax(z / T) of the logits z; T² keeps its gradient comparable for every
    T: Hinton et al. 2015, sec. 2, https://arxiv.org/abs/1503.02531 , for each token as Kim & Rush 2016, sec. 3.1,
    https://arxiv.org/abs/1606.07947 . The three terms are those of Sanh et al. 2019, sec. 2,
    https://arxiv.org/abs/1910.01108 , whose soft term is the cross-entropy: the same gradient as the divergence.

    Args:
        decoder_input: returns the student's decoder states [N, D].
        smoothing: label smoothing of the cross-entropy.
        teacher: in eval mode, with the student's vocabulary; it gets no gradient.
        temperature: T.
        hard: weight of the cross-entropy.
        soft: weight of the divergence.
        cosine: weight of the angles of decoder states.
    """

    def __init__(
        self,
        decoder_input: DecoderInput,
        smoothing: float,
        teacher: TranslationModel,
        *,
        temperature: float,
        hard: float,
        soft: float,
        cosine: float,
    ) -> None:
        self.decoder_input = decoder_input
        self.smoothing = smoothing
        self.teacher = teacher.eval().requires_grad_(False)
        self.temperature = temperature
        self.hard, self.soft, self.cosine = hard, soft, cosine

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the positions of `loss_mask`; `soft` and `cosine` with their weights are logged."""
        hidden = self.decoder_input(model, batch)  # [N, D]
        with torch.no_grad():
            taught = self.teacher.decode_states(batch.source, batch.target)[batch.loss_mask]  # [N, D of the teacher]
        target = batch.labels[batch.loss_mask]  # [N]
        hard, soft, cosine = self._terms(model, hidden, taught, target)
        return Losses(hard + soft + cosine, target.numel(), {"soft": soft.detach(), "cosine": cosine.detach()})

    def set_update(self, update: int) -> None:
        """Pass the update on to the decoder input."""
        self.decoder_input.set_update(update)

    def _terms(
        self, model: TranslationModel, hidden: Tensor, taught: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The three weighted terms, summed over the N positions."""
        own, teacher = model.output, self.teacher.output
        hard = label_smoothed_loss(hidden, own.weight, own.bias, target, smoothing=self.smoothing)
        logits = (hidden, own.weight, own.bias, taught, teacher.weight, teacher.bias)
        soft = chunked_divergence(*logits, temperature=self.temperature) if self.soft else hard.new_zeros(())
        cosine = hard.new_zeros(())
        if self.cosine:
            cosine = (1 - F.cosine_similarity(_wide(hidden), _wide(taught), dim=1)).sum()
        return self.hard * hard, self.soft * soft, self.cosine * cosine


def _wide(x: Tensor) -> Tensor:
    """The tensor in float32 or better."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
