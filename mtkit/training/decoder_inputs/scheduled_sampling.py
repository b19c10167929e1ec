"""Scheduled sampling: the decoder reads the true token, or at times its own prediction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.config import ParallelSamplingConfig, SampledInputConfig
from mtkit.training.decoder_inputs.interface import (
    DecoderInput,
    TargetTokens,
    TargetVocabIds,
    TokenSampler,
    make_sampler,
    no_grad_uncached,
    scored_states,
)

TruthMask = Callable[[Tensor, float], Tensor]  # (ids [B, T], probability) -> [B, T] bool, True where the truth is read


class SampledInput(DecoderInput):
    """The decoder reads the true tokens with a probability that changes over the training, else its predictions.

    In eval mode, and at an update with ratio 1, it reads the truth as in TeacherForcing.

    Attributes:
        truth_mask: samples the positions at which the truth is read.
        sampler: chooses the token at the other positions, given the logits.
        ratio: the teacher forcing ratio of the present update.
    """

    def __init__(self, config: SampledInputConfig, vocab_ids: TargetVocabIds) -> None:
        self.config = config
        self.truth_mask = TRUTH_MASKS[config.per]
        self.sampler = make_sampler(config.sampler, config.temperature)
        self.ratio = config.ratio_at(1)

    def set_update(self, update: float) -> None:
        """Set the teacher forcing ratio of that update."""
        self.ratio = self.config.ratio_at(update)

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        if not model.training or self.ratio >= 1.0 or batch.num_sentences == 0:
            return scored_states(model, batch, batch.target)
        return self.sampled_states(model, batch, self.truth_mask(batch.target.ids, self.ratio))

    @abstractmethod
    def sampled_states(self, model: TranslationModel, batch: Batch, truth: Tensor) -> Tensor:
        """Return decoder states [N, D] as DecoderInput, where the truth is read at the positions of `truth` [B, T]."""


class ScheduledSampling(SampledInput):
    """The decoder reads the true token with a decreasing probability, else its own prediction at the step before.

    Bengio et al. 2015. https://arxiv.org/abs/1506.03099 No gradient flows through the predictions.
    """

    def sampled_states(self, model: TranslationModel, batch: Batch, truth: Tensor) -> Tensor:
        """See SampledInput."""
        return step_by_step(model, batch, truth=truth, sampler=self.sampler)


def step_by_step(model: TranslationModel, batch: Batch, *, truth: Tensor, sampler: TokenSampler) -> Tensor:
    """Run the decoder through `start` and `step`, with gradient.

    Args:
        batch: padding may be anywhere.
        truth: [B, T] bool, for each of a sentence's tokens (left-aligned, without padding) whether the true one is
            read; the first one always is.
        sampler: chooses the other tokens, given the logits.

    Returns:
        [N, D], as DecoderInput.
    """
    # tokens to the left: their ids [B, longest], and the new column of each token [B, T]
    real = batch.target.real
    new_column = (real.cumsum(1) - 1).clamp(min=0)
    order = torch.argsort((~real).to(torch.uint8), dim=1, stable=True)
    max_length = int(real.sum(1).max()) if real.numel() else real.size(1)
    ids = batch.target.ids.gather(1, order)[:, : max(1, max_length)]
    state = model.start(batch.source)
    hidden, state, _ = model.step(ids[:, 0], state)
    outputs = [hidden]
    for t in range(1, ids.size(1)):
        token = ids[:, t]
        rows = (~truth[:, t]).nonzero().squeeze(1)  # [N], the sentences whose token is sampled
        if rows.numel():
            with no_grad_uncached():
                token = token.index_copy(0, rows, sampler(state.output_projection(hidden[rows])))
        hidden, state, _ = model.step(token, state)
        outputs.append(hidden)
    sentence, column = batch.loss_mask.nonzero(as_tuple=True)
    return torch.stack(outputs, 1)[sentence, new_column[sentence, column]]


def per_token_mask(ids: Tensor, probability: float) -> Tensor:
    """A Bernoulli mask with an independent value for each token of ids [B, T]."""
    return torch.rand(ids.shape, device=ids.device) < probability


def per_sentence_mask(ids: Tensor, probability: float) -> Tensor:
    """A Bernoulli mask with one value for all tokens of each sentence of ids [B, T]."""
    return (torch.rand(ids.size(0), 1, device=ids.device) < probability).expand(ids.shape)


TRUTH_MASKS: dict[str, TruthMask] = {"token": per_token_mask, "sentence": per_sentence_mask}


class ParallelSampling(SampledInput):
    """The decoder reads the true tokens, or tokens that it predicted in a preceding pass.

    One pass is Mihaylova & Martins 2019, sec. 3, https://arxiv.org/abs/1906.07651: the decoder reads the truth, and
    its prediction after each true prefix replaces the true token where the truth mask is False. More passes are
    Duckworth et al. 2019, sec. 3, https://arxiv.org/abs/1906.04331: each pass reads the tokens of the pass before;
    pass k leaves the first k tokens unchanged, so that num_passes = number of tokens equals step-by-step scheduled
    sampling. The truth mask is sampled once for all passes, and no gradient flows through the predictions.
    """

    def __init__(self, config: ParallelSamplingConfig, vocab_ids: TargetVocabIds) -> None:
        super().__init__(config, vocab_ids)
        self.num_passes = config.num_passes

    def sampled_states(self, model: TranslationModel, batch: Batch, truth: Tensor) -> Tensor:
        """See SampledInput."""
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
