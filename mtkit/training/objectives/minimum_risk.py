"""Minimum-risk training: whole translations, drawn from the model, judged by a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import in_chunks, log_probs
from mtkit.training.decoder_inputs.interface import TargetPieces
from mtkit.training.decoder_inputs.no_grad import aside
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.objectives.interface import Generation, Parts, RewardName


@dataclass(frozen=True)
class Candidates:
    """Translations of the sentences of a micro-batch.

    Attributes:
        pieces: of each translation, without bos and eos.
        sentence: [M] which sentence each translates.
        reward: [M] 0 to 1.
    """

    pieces: list[list[int]]
    sentence: Tensor
    reward: Tensor


class MinimumRisk:
    """The expected loss of reward over some drawn translations. Shen et al. 2016, eq. 11-13.

    sum over y of Q(y) (1 - reward(y)), Q(y) = P(y|x)^sharpness / sum over y' of P(y'|x)^sharpness, y among distinct
    samples and the reference. It is summed over sentences, while training divides by tokens; to it is added
    `cross_entropy` times the smoothed cross-entropy of the reference (Edunov et al. 2018, sec. 3.3, weighted sum).
    https://arxiv.org/abs/1512.02433, https://arxiv.org/abs/1711.04956

    Args:
        config: see there.
        parts: the decoder input is that of the cross-entropy alone.
    """

    def __init__(self, config: MinimumRiskConfig, parts: Parts) -> None:
        self.config = config
        self.pieces: TargetPieces = parts.pieces
        self.generation: Generation = parts.generation
        self.cross_entropy = CrossEntropy(parts.decoder_input, parts.smoothing)

    def set_update(self, update: int) -> None:
        """Tell the decoder input."""
        self.cross_entropy.set_update(update)

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The risk summed over sentences, as `risk` too, and the weighted cross-entropy."""
        candidates = self.candidates(model, batch)
        log_prob = self.log_probs(model, batch, candidates)  # [M]
        risk = expected_risk(log_prob, candidates, batch.num_sentences, sharpness=self.config.sharpness)
        if not self.config.cross_entropy:
            return Losses(risk, int(batch.scored.sum()), {"risk": risk.detach()})
        losses = self.cross_entropy(model, batch)
        return Losses(risk + self.config.cross_entropy * losses.sum, losses.tokens, {"risk": risk.detach()})

    @aside()
    def candidates(self, model: TranslationModel, batch: Batch) -> Candidates:
        """Distinct samples of each sentence and, if asked for, its reference."""
        config, was_training = self.config, model.training
        model.eval()
        try:
            drawn = self.generation.sample(model, batch.source, count=config.samples, temperature=config.temperature)
        finally:
            model.train(was_training)  # also where memory runs out, which a training may survive
        pieces: list[list[int]] = []
        sentences: list[int] = []
        rewards: list[float] = []
        for number, (labels, scored) in enumerate(zip(batch.labels, batch.scored, strict=True)):
            ref = labels[scored].tolist()[:-1]
            found = {tuple(hyp): list(hyp) for hyp in ([ref] if config.with_reference else []) + drawn[number]}
            pieces += found.values()
            sentences += [number] * len(found)
            rewards += self.generation.reward(config.reward, list(found.values()), ref)
        device = batch.labels.device
        return Candidates(pieces, torch.tensor(sentences, device=device), torch.tensor(rewards, device=device))

    def log_probs(self, model: TranslationModel, batch: Batch, candidates: Candidates) -> Tensor:
        """log P(y|x) of each candidate with its end, [M]."""
        target, labels = self._collate(candidates.pieces, batch.labels.device)
        hidden = model.hidden(batch.source.select(candidates.sentence), target)[target.real]  # [N, D]
        parts = in_chunks(partial(_log_prob, model), hidden, labels[target.real])
        of_piece = torch.cat(parts)  # [N]
        row = target.real.nonzero()[:, 0]  # [N]
        return of_piece.new_zeros(len(candidates.pieces)).index_add(0, row, of_piece)

    def _collate(self, pieces: Sequence[Sequence[int]], device: torch.device) -> tuple[Target, Tensor]:
        """What the decoder reads, and labels [M, T]."""
        lengths = torch.tensor([len(each) + 1 for each in pieces], device=device)  # [M]
        longest = int(lengths.max())
        pad, bos, eos = self.pieces.pad, self.pieces.bos, self.pieces.eos
        rows = [[bos, *each, eos] + [pad] * (longest - 1 - len(each)) for each in pieces]
        ids = torch.tensor(rows, device=device)  # [M, T + 1]
        pos = torch.arange(longest, device=device).expand(len(pieces), -1)
        real = pos < lengths.unsqueeze(1)
        return Target(ids=torch.where(real, ids[:, :-1], pad), real=real, pos=pos), ids[:, 1:]


def _log_prob(model: TranslationModel, hidden: Tensor, target: Tensor) -> Tensor:
    return log_probs(model.output, hidden).gather(1, target.unsqueeze(1)).squeeze(1)  # [n]


def expected_risk(log_prob: Tensor, candidates: Candidates, num_sentences: int, *, sharpness: float) -> Tensor:
    """Summed over sentences: the mean of 1 - reward over a sentence's candidates, by their renormalised probabilities.

    log_prob [M] may carry gradient.
    """
    sentence = candidates.sentence
    scaled = sharpness * log_prob  # [M]
    top = scaled.detach().new_full((num_sentences,), float("-inf"))
    top = top.scatter_reduce(0, sentence, scaled.detach(), "amax")  # [B]
    weight = (scaled - top[sentence]).exp()  # [M]
    total = weight.new_zeros(num_sentences).index_add(0, sentence, weight)  # [B]
    return (weight / total[sentence] * (1 - candidates.reward.to(weight.dtype))).sum()


@dataclass(frozen=True, kw_only=True)
class MinimumRiskConfig:
    """Whole translations, drawn from the model and judged by a score (see MinimumRisk).

    For fine-tuning (`training.init_from`): samples of an untrained model teach nothing. Memory and time grow with the
    number of samples, so `training.batch_tokens` should be divided by about that.
    """

    kind: Literal["minimum_risk"] = "minimum_risk"
    reward: RewardName = "bleu"  # of a sentence: BLEU smoothed by adding one, or chrF
    samples: Annotated[int, Field(gt=1)] = 8  # drawn for each sentence; the paper has 100, most gain comes by 10
    temperature: Annotated[float, Field(gt=0)] = 1.0  # of drawing
    sharpness: Annotated[float, Field(gt=0)] = 0.005  # the paper's alpha, sec. 4.1: close to uniform
    with_reference: bool = True  # as a candidate, as in the paper
    cross_entropy: Annotated[float, Field(ge=0)] = 0.3  # added; keeps the model fluent, 0 is the paper

    def build(self, parts: Parts) -> MinimumRisk:
        """The objective."""
        return MinimumRisk(self, parts)
