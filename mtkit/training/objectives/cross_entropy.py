"""Cross-entropy, the objective of most trainings, and its variants that add a term for each position."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.decoder_only.model import DecoderOnly
from mtkit.models.interface import Losses, TranslationModel
from mtkit.models.transformer.model import Transformer
from mtkit.training.chunked_loss import apply_chunked, label_smoothed_loss, log_probs
from mtkit.training.objectives.config import (
    CrossEntropyConfig,
    JointLMConfig,
    MaskedLMConfig,
    RDropConfig,
    UnlikelihoodConfig,
)
from mtkit.training.objectives.interface import ObjectiveInputs, TokenObjective, TrainingObjective


class CrossEntropy(TokenObjective):
    """Label-smoothed cross-entropy in nats of the true tokens; without smoothing the nll that validation reports."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the positions of `loss_mask`."""
        hidden = self.decoder_input(model, batch)  # [N, D]
        target = batch.labels[batch.loss_mask]  # [N]
        weight, bias = model.output.weight, model.output.bias
        return Losses(label_smoothed_loss(hidden, weight, bias, target, smoothing=self.smoothing), target.numel())


def cross_entropy(config: CrossEntropyConfig, inputs: ObjectiveInputs) -> CrossEntropy:
    """Cross-entropy with the decoder input and label smoothing of a recipe."""
    return CrossEntropy(inputs.decoder_input, inputs.smoothing)


class RDrop(TokenObjective):
    """Half the loss of Liang et al. 2021, eq. 4: the mean cross-entropy of two passes, and their divergence.

    ½ (CE1 + CE2) + weight/4 (KL(P1 || P2) + KL(P2 || P1)). The paper has sums; half of them makes the loss per token
    comparable with that of other objectives. https://arxiv.org/abs/2106.14448
    The decoder input determines the tokens that the decoder reads separately in each pass.
    """

    def __init__(self, config: RDropConfig, inputs: ObjectiveInputs) -> None:
        super().__init__(inputs.decoder_input, inputs.smoothing)
        self.weight = config.weight

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the positions of `loss_mask`; its weighted divergence is logged as `kl`."""
        target = batch.labels[batch.loss_mask]  # [N]
        first, second = (self.decoder_input(model, batch) for _ in range(2))  # [N, D]
        terms = torch.stack(apply_chunked(partial(self._terms, model), first, second, target)).sum(0)  # [2]
        return Losses(terms.sum(), target.numel(), {"kl": terms[1].detach()})

    def _terms(self, model: TranslationModel, first: Tensor, second: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy and weighted divergence of n positions, [2]."""
        p, q = log_probs(model.output, first), log_probs(model.output, second)  # [n, V]
        mean = (p + q) / 2
        target_log_prob = mean.gather(1, target.unsqueeze(1)).sum()
        cross_entropy = -(1 - self.smoothing) * target_log_prob - self.smoothing / mean.size(1) * mean.sum()
        symmetric_kl = ((p.exp() - q.exp()) * (p - q)).sum()  # KL(P1 || P2) + KL(P2 || P1)
        return torch.stack([cross_entropy, self.weight / 4 * symmetric_kl])


MIN_COMPLEMENT = 1e-5  # lower limit of 1 - p, so that its logarithm is finite (as in the authors' code)


class Unlikelihood(TokenObjective):
    """Cross-entropy plus weight times -log(1 - p(c)) of every earlier token c of the sentence, except the true one.

    Welleck et al. 2020, eq. 2 and 5 (token level). https://arxiv.org/abs/1908.04319
    """

    def __init__(self, config: UnlikelihoodConfig, inputs: ObjectiveInputs) -> None:
        super().__init__(inputs.decoder_input, inputs.smoothing)
        self.weight = config.weight

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the positions of `loss_mask`; its second term is logged as `unlikelihood`."""
        hidden = self.decoder_input(model, batch)  # [N, D]
        sentence, column = batch.loss_mask.nonzero(as_tuple=True)  # [N]
        target, labels = batch.labels[sentence, column], batch.labels[sentence]  # [N], [N, T]
        columns = torch.arange(labels.size(1), device=labels.device)
        is_earlier = batch.loss_mask[sentence] & (columns < column.unsqueeze(1))  # [N, T]
        chunks = apply_chunked(partial(self._terms, model), hidden, target, labels, is_earlier)
        terms = torch.stack(chunks).sum(0)  # [2]
        return Losses(terms.sum(), target.numel(), {"unlikelihood": terms[1].detach()})

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


class JointLM(TrainingObjective):
    """Cross-entropy of the target tokens plus `source_weight` times that of the source tokens after the first.

    Gao et al. 2022, sec. 3 (https://arxiv.org/abs/2210.11807), train a decoder-only model on both sides. The source
    term is a sum too: each source token counts `source_weight` times as much as a target token.
    """

    def __init__(self, config: JointLMConfig, inputs: ObjectiveInputs) -> None:
        self.smoothing = inputs.smoothing
        self.source_weight = config.source_weight

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over both sides; `tokens` counts the target only, and `source_loss` is logged.

        Raises:
            ValueError: the model is not decoder-only.
        """
        if not isinstance(model, DecoderOnly):
            raise ValueError(f"joint_lm needs a decoder-only model, this is a {type(model).__name__}")
        source, target = model.forward_both(batch.source, batch.target)  # [B, S, D], [B, T, D]
        weight, bias = model.output.weight, model.output.bias
        labels = batch.labels[batch.loss_mask]  # [N]
        loss = label_smoothed_loss(target[batch.loss_mask], weight, bias, labels, smoothing=self.smoothing)
        ids, real = batch.source.ids, batch.source.real
        has_next = real[:, :-1] & real[:, 1:]  # [B, S - 1], a token that another one follows
        source_loss = label_smoothed_loss(
            source[:, :-1][has_next], weight, bias, ids[:, 1:][has_next], smoothing=self.smoothing
        )
        return Losses(loss + self.source_weight * source_loss, labels.numel(), {"source_loss": source_loss.detach()})


class MaskedLM(TrainingObjective):
    """Cross-entropy in nats of the chosen tokens, predicted from the encoder states at their positions.

    Devlin et al. 2019, sec. 3.1, task 1. https://arxiv.org/abs/1810.04805 Their dense layer between the states and the
    projection is omitted: the model's own output projection reads the states, so that all trained weights serve
    translation. The decoder is not trained.

    Args:
        smoothing: label smoothing, 0 <= smoothing < 1.
    """

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the positions of `loss_mask`; source and labels are aligned.

        Raises:
            ValueError: the model is no Transformer with an encoder, or source and labels have different lengths.
        """
        if not isinstance(model, Transformer):
            raise ValueError(f"masked_lm needs a Transformer with an encoder, this is a {type(model).__name__}")
        if batch.source.ids.shape != batch.labels.shape:
            raise ValueError(f"source {list(batch.source.ids.shape)} and labels {list(batch.labels.shape)} differ")
        hidden = model.encode(batch.source)[batch.loss_mask]  # [N, D]
        labels = batch.labels[batch.loss_mask]  # [N]
        weight, bias = model.output.weight, model.output.bias
        return Losses(label_smoothed_loss(hidden, weight, bias, labels, smoothing=self.smoothing), labels.numel())


def masked_lm(config: MaskedLMConfig, inputs: ObjectiveInputs) -> MaskedLM:
    """Prediction of masked tokens with the label smoothing of a recipe."""
    return MaskedLM(inputs.smoothing)
