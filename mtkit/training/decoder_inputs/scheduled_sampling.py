"""What the decoder reads in training: the truth, or at times what it would have said itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.interface import TargetPieces
from mtkit.training.decoder_inputs.no_grad import aside
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.decoder_inputs.teacher_forcing_ratio import InverseSigmoidDecayConfig, TruthRateConfig
from mtkit.training.decoder_inputs.token_sampler import Choice, ChoiceName, Temperature, make_choice

Coins = Callable[[Tensor, float], Tensor]  # (ids [B, T], probability) -> [B, T] bool, True where the truth is read


class ScheduledSampling:
    """The decoder reads the truth with a probability that falls, else its own choice at the step before.

    Bengio et al. 2015. https://arxiv.org/abs/1506.03099 No gradient goes through the choice. A model that is not
    being trained, and an update at which the probability is 1, read the truth as TeacherForcing does.

    Args:
        rate: the probability of the truth at an update, counted from 0.
        coins: where the truth is read.
        choice: what is read elsewhere, given the logits.
    """

    def __init__(self, rate: Callable[[int], float], coins: Coins, choice: Choice) -> None:
        self.rate = rate
        self.coins = coins
        self.choice = choice
        self.probability = rate(0)

    def set_update(self, update: int) -> None:
        """Take the probability of that update."""
        self.probability = self.rate(update - 1)

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        if not model.training or self.probability >= 1.0 or batch.num_sentences == 0:
            return TeacherForcing()(model, batch)
        truth = self.coins(batch.target.ids, self.probability)
        return step_by_step(model, batch, truth=truth, choice=self.choice)


def step_by_step(model: TranslationModel, batch: Batch, *, truth: Tensor, choice: Choice) -> Tensor:
    """Run the decoder through `start` and `step`, with gradient.

    Args:
        model: any model.
        batch: padding may be anywhere.
        truth: [B, T] bool, for each of a sentence's tokens (in order, padding left out) whether the true one is read;
            the first always is.
        choice: what is read otherwise.

    Returns:
        [N, D], as DecoderInput.
    """
    ids, place = compact(batch.target)
    state = model.start(batch.source)
    hidden, state, _ = model.step(ids[:, 0], state)
    outputs = [hidden]
    for t in range(1, ids.size(1)):
        token = _next_token(ids[:, t], truth[:, t], hidden=hidden, logits=state.logits, choice=choice)
        hidden, state, _ = model.step(token, state)
        outputs.append(hidden)
    sentence, column = batch.scored.nonzero(as_tuple=True)
    return torch.stack(outputs, 1)[sentence, place[sentence, column]]


def compact(target: Target) -> tuple[Tensor, Tensor]:
    """Move each sentence's tokens to the left: ids [B, longest], and for each place [B, T] where its token now is."""
    place = (target.real.cumsum(1) - 1).clamp(min=0)
    order = torch.argsort((~target.real).to(torch.uint8), dim=1, stable=True)
    longest = int(target.real.sum(1).max()) if target.real.numel() else target.real.size(1)
    return target.ids.gather(1, order)[:, : max(1, longest)], place


@aside()
def _next_token(
    true: Tensor, truth: Tensor, *, hidden: Tensor, logits: Callable[[Tensor], Tensor], choice: Choice
) -> Tensor:
    """The true ids [B] where `truth` [B]; elsewhere a choice from the logits of `hidden` [B, D]."""
    rows = (~truth).nonzero().squeeze(1)  # [N]
    return true if rows.numel() == 0 else true.index_copy(0, rows, choice(logits(hidden[rows])))


def token_coins(ids: Tensor, probability: float) -> Tensor:
    """A coin for each token of ids [B, T]."""
    return torch.rand(ids.shape, device=ids.device) < probability


def sentence_coins(ids: Tensor, probability: float) -> Tensor:
    """One coin for each sentence of ids [B, T]; its tokens are all true, or none is."""
    return (torch.rand(ids.size(0), 1, device=ids.device) < probability).expand(ids.shape)


COINS: dict[str, Coins] = {"token": token_coins, "sentence": sentence_coins}


@dataclass(frozen=True, kw_only=True)
class ScheduledSamplingConfig:
    """The decoder at times reads its own choice (see ScheduledSampling); a step-by-step pass, so slower."""

    kind: Literal["scheduled_sampling"] = "scheduled_sampling"
    decay: TruthRateConfig = field(default_factory=InverseSigmoidDecayConfig)
    coin: Literal["token", "sentence"] = "token"  # thrown for each; the paper found a coin for each token better
    choice: ChoiceName = "sample"  # what is read when the truth is not
    temperature: Temperature = 1.0  # of sample and gumbel; below 1 is nearer to argmax

    def build(self, pieces: TargetPieces) -> ScheduledSampling:
        """The decoder input."""
        return ScheduledSampling(self.decay.rate, COINS[self.coin], make_choice(self.choice, self.temperature))
