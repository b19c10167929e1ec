"""Distillation: a student learns from the distribution and the states of a teacher, besides the true tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import label_smoothed_loss
from mtkit.training.decoder_inputs.interface import DecoderInput
from mtkit.training.objectives.chunked_divergence import chunked_divergence
from mtkit.training.objectives.interface import ObjectiveConfigBase, ObjectiveInputs


@dataclass(frozen=True, kw_only=True)
class DistillationConfig(ObjectiveConfigBase):
    """Loss against the distribution of a teacher with the same vocabulary (see Distillation)."""

    kind: Literal["distillation"] = "distillation"
    teacher: Path  # a model folder or a finished run, with the tokenizer of this training
    temperature: Annotated[float, Field(gt=0)] = 2.0  # higher shows more of the teacher's second choices; 1: none
    soft: Annotated[float, Field(ge=0)] = 0.6  # weight of the teacher's distribution; DistilBERT's three are 5:2:1
    hard: Annotated[float, Field(ge=0)] = 0.3  # weight of cross-entropy with the true tokens
    cosine: Annotated[float, Field(ge=0)] = 0.1  # weight of the angle of decoder states; needs the teacher's d_model

    needs_teacher_forcing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.soft == self.hard == self.cosine == 0:
            raise ValueError("soft: soft, hard and cosine are 0, so that nothing is learned; set one of them")

    @property
    def teacher_model(self) -> Path:
        """See ObjectiveConfigBase."""
        return self.teacher

    def build(self, inputs: ObjectiveInputs) -> Distillation:
        """The objective.

        Raises:
            ValueError: the inputs have no teacher.
        """
        if inputs.teacher is None:
            raise ValueError("distillation without a teacher")
        return Distillation(inputs.decoder_input, inputs.smoothing, inputs.teacher, self)


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
        config: temperature and weights.
    """

    def __init__(
        self, decoder_input: DecoderInput, smoothing: float, teacher: TranslationModel, config: DistillationConfig
    ) -> None:
        self.decoder_input = decoder_input
        self.smoothing = smoothing
        self.teacher = teacher.eval().requires_grad_(False)
        self.config = config

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
        config, own, teacher = self.config, model.output, self.teacher.output
        hard = label_smoothed_loss(hidden, own.weight, own.bias, target, smoothing=self.smoothing)
        logits = (hidden, own.weight, own.bias, taught, teacher.weight, teacher.bias)
        soft = chunked_divergence(*logits, temperature=config.temperature) if config.soft else hard.new_zeros(())
        cosine = hard.new_zeros(())
        if config.cosine:
            cosine = (1 - F.cosine_similarity(_wide(hidden), _wide(taught), dim=1)).sum()
        return config.hard * hard, config.soft * soft, config.cosine * cosine


def _wide(x: Tensor) -> Tensor:
    """The tensor in float32 or better."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
