"""Minimum-risk training: the expected risk of whole translations that are sampled from the model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import apply_chunked, log_probs
from mtkit.training.decoder_inputs.interface import no_grad_uncached
from mtkit.training.objectives.config import MinimumRiskConfig
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.objectives.interface import ObjectiveInputs, TrainingObjective


@dataclass(frozen=True)
class SampledCandidates:
    """M translations of the sentences of a micro-batch.

    Attributes:
        tokens: token ids of each translation, without bos and eos.
        sentence: [M] the sentence that each one translates.
        reward: [M] 0 to 1.
    """

    tokens: list[list[int]]
    sentence: Tensor
    reward: Tensor


class MinimumRisk(TrainingObjective):
    """The expected risk (1 - reward) over sampled translations. Shen et al. 2016, eq. 11-13.

    sum over y of Q(y) (1 - reward(y)), Q(y) = P(y|x)^sharpness / sum over y' of P(y'|x)^sharpness, y among distinct
    samples and the reference. The risk is summed over sentences, although training divides by tokens. `cross_entropy`
    times the smoothed cross-entropy of the reference is added (Edunov et al. 2018, sec. 3.3, weighted sum).
    https://arxiv.org/abs/1512.02433, https://arxiv.org/abs/1711.04956

    The decoder input is used by the cross-entropy only.
    """

    def __init__(self, config: MinimumRiskConfig, inputs: ObjectiveInputs) -> None:
        self.config = config
        self.vocab_ids = inputs.vocab_ids
        self.translation_sampler = inputs.translation_sampler
        self.cross_entropy = CrossEntropy(inputs.decoder_input, inputs.smoothing)

    def set_update(self, update: float) -> None:
        """Pass the update on to the decoder input."""
        self.cross_entropy.set_update(update)

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The risk summed over sentences (logged as `risk`), plus the weighted cross-entropy."""
        candidates = self.candidates(model, batch)
        log_prob = self.log_probs(model, batch, candidates)  # [M]
        risk = expected_risk(log_prob, candidates, batch.num_sentences, sharpness=self.config.sharpness)
        if not self.config.cross_entropy:
            return Losses(risk, int(batch.loss_mask.sum()), {"risk": risk.detach()})
        losses = self.cross_entropy(model, batch)
        return Losses(risk + self.config.cross_entropy * losses.sum, losses.tokens, {"risk": risk.detach()})

    @no_grad_uncached()
    def candidates(self, model: TranslationModel, batch: Batch) -> SampledCandidates:
        """Distinct samples of each sentence and, with `include_reference`, its reference."""
        config, was_training = self.config, model.training
        model.eval()
        try:
            samples = self.translation_sampler.sample(
                model, batch.source, count=config.num_samples, temperature=config.temperature
            )
        finally:
            model.train(was_training)  # also after an out-of-memory error, which training may survive
        tokens: list[list[int]] = []
        sentences: list[int] = []
        rewards: list[float] = []
        for number, (labels, loss_mask) in enumerate(zip(batch.labels, batch.loss_mask, strict=True)):
            ref = labels[loss_mask].tolist()[:-1]
            distinct = {tuple(hyp): list(hyp) for hyp in ([ref] if config.include_reference else []) + samples[number]}
            tokens += distinct.values()
            sentences += [number] * len(distinct)
            rewards += self.translation_sampler.reward(config.reward, list(distinct.values()), ref)
        device = batch.labels.device
        return SampledCandidates(tokens, torch.tensor(sentences, device=device), torch.tensor(rewards, device=device))

    def log_probs(self, model: TranslationModel, batch: Batch, candidates: SampledCandidates) -> Tensor:
        """log P(y|x) of each candidate including eos, [M]."""
        tokens, device, vocab = candidates.tokens, batch.labels.device, self.vocab_ids
        lengths = torch.tensor([len(each) + 1 for each in tokens], device=device)  # [M]
        max_length = int(lengths.max())
        rows = [[vocab.bos, *each, vocab.eos] + [vocab.pad] * (max_length - 1 - len(each)) for each in tokens]
        ids = torch.tensor(rows, device=device)  # [M, T + 1]
        labels = ids[:, 1:]
        real = torch.arange(max_length, device=device) < lengths.unsqueeze(1)  # [M, T]
        pos = torch.arange(max_length, device=device).expand_as(real)
        target = Target(ids=torch.where(real, ids[:, :-1], vocab.pad), real=real, pos=pos)
        hidden = model.decode_states(batch.source.select(candidates.sentence), target)[target.real]  # [N, D]
        chunks = apply_chunked(partial(_token_log_probs, model), hidden, labels[target.real])
        token_log_probs = torch.cat(chunks)  # [N]
        candidate = target.real.nonzero()[:, 0]  # [N]
        return token_log_probs.new_zeros(len(tokens)).index_add(0, candidate, token_log_probs)


def _token_log_probs(model: TranslationModel, hidden: Tensor, target: Tensor) -> Tensor:
    return log_probs(model.output, hidden).gather(1, target.unsqueeze(1)).squeeze(1)  # [n]


def expected_risk(log_prob: Tensor, candidates: SampledCandidates, num_sentences: int, *, sharpness: float) -> Tensor:
    """The mean of 1 - reward over each sentence's candidates, weighted by Q (see MinimumRisk), summed over sentences.

    log_prob [M] may require gradient.
    """
    sentence = candidates.sentence
    scaled = sharpness * log_prob  # [M]
    max_scaled = scaled.detach().new_full((num_sentences,), float("-inf"))
    max_scaled = max_scaled.scatter_reduce(0, sentence, scaled.detach(), "amax")  # [B]
    weight = (scaled - max_scaled[sentence]).exp()  # [M]
    total = weight.new_zeros(num_sentences).index_add(0, sentence, weight)  # [B]
    return (weight / total[sentence] * (1 - candidates.reward.to(weight.dtype))).sum()
