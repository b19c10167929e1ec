"""Scheduled sampling in whole passes of the decoder, for models that compute all positions at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.interface import TargetPieces
from mtkit.training.decoder_inputs.no_grad import aside
from mtkit.training.decoder_inputs.scheduled_sampling import COINS, Coins
from mtkit.training.decoder_inputs.target_tokens import Places, states
from mtkit.training.decoder_inputs.teacher_forcing_ratio import InverseSigmoidDecayConfig, TruthRateConfig
from mtkit.training.decoder_inputs.token_sampler import Choice, ChoiceName, Temperature, make_choice


class ParallelSampling:
    """The decoder reads the truth, or what it chose itself in a pass before.

    One pass is Mihaylova & Martins 2019, sec. 3, https://arxiv.org/abs/1906.07651: the decoder reads the truth, and
    what it chooses after each true prefix takes the truth's place where a coin says so. More passes are Duckworth et
    al. 2019, sec. 3, https://arxiv.org/abs/1906.04331: each pass reads what the one before made; pass k leaves the
    first k tokens as they are, so that with as many passes as tokens this is step-by-step scheduled sampling. The
    coins are thrown once for all passes, and no gradient goes through the choices. A model that is not being trained,
    and an update at which the probability is 1, read the truth.

    Args:
        rate: the probability of the truth at an update, counted from 0.
        coins: where the truth is read.
        choice: what is read elsewhere, given the logits.
        passes: before the one with gradient.
    """

    def __init__(self, rate: Callable[[int], float], coins: Coins, choice: Choice, *, passes: int) -> None:
        self.rate = rate
        self.coins = coins
        self.choice = choice
        self.passes = passes
        self.probability = rate(0)

    def set_update(self, update: int) -> None:
        """Take the probability of that update."""
        self.probability = self.rate(update - 1)

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        if not model.training or self.probability >= 1.0 or batch.num_sentences == 0:
            return states(model, batch, batch.target)
        truth = self.coins(batch.target.ids, self.probability)  # [B, T]
        return states(model, batch, self.target(model, batch, truth))

    @aside()
    def target(self, model: TranslationModel, batch: Batch, truth: Tensor) -> Target:
        """What the last pass reads, the truth where `truth` [B, T]."""
        target, places = batch.target, Places.of(batch.target)
        places = places.select(~places.values(truth))
        for number in range(1, self.passes + 1):
            places = places.select(places.ordinal >= number)
            if not places.column.numel():
                break
            hidden = model.hidden(batch.source, target)  # [B, T, D]
            target = places.read(target, places.apply(model, hidden, self.choice))
        return target


@dataclass(frozen=True, kw_only=True)
class ParallelSamplingConfig:
    """The decoder at times reads what it chose in a pass before (see ParallelSampling); a pass costs a forward."""

    kind: Literal["parallel_sampling"] = "parallel_sampling"
    decay: TruthRateConfig = field(default_factory=InverseSigmoidDecayConfig)
    coin: Literal["token", "sentence"] = "token"  # thrown for each
    choice: ChoiceName = "sample"  # what is read when the truth is not
    temperature: Temperature = 1.0  # of sample and gumbel; below 1 is nearer to argmax
    passes: Annotated[int, Field(gt=0)] = 1  # 1 is the two-pass method: one to choose, one to learn

    def build(self, pieces: TargetPieces) -> ParallelSampling:
        """The decoder input."""
        choice = make_choice(self.choice, self.temperature)
        return ParallelSampling(self.decay.rate, COINS[self.coin], choice, passes=self.passes)
