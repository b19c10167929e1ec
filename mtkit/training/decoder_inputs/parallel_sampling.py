"""Parallel scheduled sampling: whole passes of the decoder, for models that compute all positions at once."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.no_grad import no_grad_uncached
from mtkit.training.decoder_inputs.scheduled_sampling import TruthMask
from mtkit.training.decoder_inputs.target_tokens import TargetTokens, scored_states
from mtkit.training.decoder_inputs.token_sampler import TokenSampler


class ParallelSampling:
    """The decoder reads the true tokens, or tokens that it predicted in a preceding pass.

    One pass is Mihaylova & Martins 2019, sec. 3, https://arxiv.org/abs/1906.07651: the decoder reads the truth, and
    its prediction after each true prefix replaces the true token where the truth mask is False. More passes are
    Duckworth et al. 2019, sec. 3, https://arxiv.org/abs/1906.04331: each pass reads the tokens of the pass before;
    pass k leaves the first k tokens unchanged, so that num_passes = number of tokens equals step-by-step scheduled
    sampling. The truth mask is sampled once for all passes, and no gradient flows through the predictions. In eval
    mode, and at an update with ratio 1, the decoder reads the truth.

    Args:
        schedule: the teacher forcing ratio at an update, counted from 0.
        truth_mask: samples the positions at which the truth is read.
        sampler: chooses the token at the other positions, given the logits.
        num_passes: passes before the one with gradient.
    """

    def __init__(
        self, schedule: Callable[[int], float], truth_mask: TruthMask, sampler: TokenSampler, *, num_passes: int
    ) -> None:
        self.schedule = schedule
        self.truth_mask = truth_mask
        self.sampler = sampler
        self.num_passes = num_passes
        self.ratio = schedule(0)

    def set_update(self, update: int) -> None:
        """Set the teacher forcing ratio of that update."""
        self.ratio = self.schedule(update - 1)

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        if not model.training or self.ratio >= 1.0 or batch.num_sentences == 0:
            return scored_states(model, batch, batch.target)
        truth = self.truth_mask(batch.target.ids, self.ratio)  # [B, T]
        return scored_states(model, batch, self.target(model, batch, truth))

    @no_grad_uncached()
    def target(self, model: TranslationModel, batch: Batch, truth: Tensor) -> Target:
        """The input of the last pass: the true tokens where `truth` [B, T] is True, predictions elsewhere."""
        target, tokens = batch.target, TargetTokens.of(batch.target)
        tokens = tokens.select(~tokens.gather(truth))
        for number in range(1, self.num_passes + 1):
            tokens = tokens.select(tokens.index_in_sentence >= number)
            if not tokens.column.numel():
                break
            hidden = model.decode_states(batch.source, target)  # [B, T, D]
            target = tokens.replace_in(target, tokens.map_logits(model, hidden, self.sampler))
        return target
