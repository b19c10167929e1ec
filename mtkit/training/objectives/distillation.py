"""Distillation: a student learns from the distribution and the states of a teacher, besides the true tokens."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.layers.matmul import compute_dtype, multiply
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import CHUNK_SIZE, label_smoothed_loss, row_blocks
from mtkit.training.objectives.config import DistillationConfig
from mtkit.training.objectives.interface import ObjectiveInputs, TokenObjective


class Distillation(TokenObjective):
    """hard · CE + soft · T² KL(P_teacher || P_student) + cosine · Σ (1 - cos(h_student, h_teacher)).

    The distributions of the divergence are softmax(z / T) of the logits z; T² keeps its gradient comparable for every
    T: Hinton et al. 2015, sec. 2, https://arxiv.org/abs/1503.02531 , for each token as Kim & Rush 2016, sec. 3.1,
    https://arxiv.org/abs/1606.07947 . The three terms are those of Sanh et al. 2019, sec. 2,
    https://arxiv.org/abs/1910.01108 , whose soft term is the cross-entropy: the same gradient as the divergence.

    Args:
        config: T and the three weights.
        inputs: their teacher, with the student's vocabulary, is put into eval mode and gets no gradient.

    Raises:
        ValueError: the inputs have no teacher.
    """

    def __init__(self, config: DistillationConfig, inputs: ObjectiveInputs) -> None:
        if inputs.teacher is None:
            raise ValueError("distillation without a teacher")
        super().__init__(inputs.decoder_input, inputs.smoothing)
        self.config = config
        self.teacher = inputs.teacher.eval().requires_grad_(False)

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the positions of `loss_mask`; `soft` and `cosine` with their weights are logged."""
        config, student, teacher = self.config, model.output, self.teacher.output
        hidden = self.decoder_input(model, batch)  # [N, D]
        with torch.no_grad():
            taught = self.teacher.decode_states(batch.source, batch.target)[batch.loss_mask]  # [N, D of the teacher]
        target = batch.labels[batch.loss_mask]  # [N]
        loss = label_smoothed_loss(hidden, student.weight, student.bias, target, smoothing=self.smoothing)
        soft = cosine = loss.new_zeros(())
        if config.soft:
            logits = (hidden, student.weight, student.bias, taught, teacher.weight, teacher.bias)
            soft = config.soft * chunked_divergence(*logits, temperature=config.temperature)
        if config.cosine:
            ours, theirs = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (hidden, taught))
            cosine = config.cosine * (1 - F.cosine_similarity(ours, theirs, dim=1)).sum()
        extra = {"soft": soft.detach(), "cosine": cosine.detach()}
        return Losses(config.hard * loss + soft + cosine, target.numel(), extra)


def divergence_(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Sum KL(p || q) of p = softmax(teacher / T) and q = softmax(student / T), and overwrite the student with q - p.

    Args:
        student: [n, V] logits; overwritten.
        teacher: [n, V] logits.
        temperature: T.

    Returns:
        Scalar, nats summed over the n positions, float32 at least.
    """
    wide = torch.promote_types(student.dtype, torch.float32)
    total = student.new_zeros((), dtype=wide)
    for block in row_blocks(student):
        log_q, log_p = (each[block].to(wide).div(temperature).log_softmax(1) for each in (student, teacher))
        p = log_p.exp()
        total += (log_p.sub_(log_q).mul_(p)).sum()
        student[block] = log_q.exp_().sub_(p)
    return total


class _ChunkedDivergence(torch.autograd.Function):
    """T² KL(p || q) of projected states; d / d (student's logits) = T (q - p)."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        taught: Tensor,
        taught_weight: Tensor,
        taught_bias: Tensor | None,
        temperature: float,
    ) -> Tensor:
        dtype = compute_dtype(hidden)
        wide = torch.promote_types(dtype, torch.float32)
        low, low_weight, taught, taught_weight = (x.to(dtype) for x in (hidden, weight, taught, taught_weight))
        total = hidden.new_zeros((), dtype=wide)
        grad_hidden = torch.empty_like(hidden, dtype=wide)  # [N, D]
        grad_weight = torch.zeros_like(weight, dtype=wide)  # [V, D]
        grad_bias = None if bias is None else torch.zeros_like(bias, dtype=wide)  # [V]
        for start in range(0, hidden.size(0), CHUNK_SIZE):
            chunk = slice(start, start + CHUNK_SIZE)
            student = multiply(low[chunk], low_weight.mT, dtype, dtype)
            teacher = multiply(taught[chunk], taught_weight.mT, dtype, dtype)
            for logits, added in ((student, bias), (teacher, taught_bias)):
                if added is not None:
                    logits += added
            total += divergence_(student, teacher, temperature)
            if any(ctx.needs_input_grad):
                grad_hidden[chunk] = multiply(student, low_weight, dtype)
                grad_weight += multiply(student.mT, low[chunk], dtype)
                if grad_bias is not None:
                    grad_bias += student.sum(0, dtype=wide)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.dtypes = hidden.dtype, weight.dtype, None if bias is None else bias.dtype
        ctx.temperature = temperature
        return total * temperature**2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        factor = grads[0] * ctx.temperature
        scaled = (
            None if saved is None else saved.mul(factor.to(saved.dtype)).to(dtype)
            for saved, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        )
        return *scaled, None, None, None, None


def chunked_divergence(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    taught: Tensor,
    taught_weight: Tensor,
    taught_bias: Tensor | None,
    *,
    temperature: float,
) -> Tensor:
    """T² KL(softmax(teacher / T) || softmax(student / T)) of projected states. Hinton et al. 2015, sec. 2.

    Args:
        hidden: [N, D] decoder states of the student.
        weight: [V, D] its output embedding.
        bias: [V], or None.
        taught: [N, D'] decoder states of the teacher; no gradient.
        taught_weight: [V, D'] its output embedding; no gradient.
        taught_bias: [V], or None; no gradient.
        temperature: T.

    Returns:
        Scalar, nats summed over the N positions.
    """
    inputs = (hidden, weight, bias, taught, taught_weight, taught_bias, temperature)
    loss: Tensor = _ChunkedDivergence.apply(*inputs)  # type: ignore[no-untyped-call]
    return loss
