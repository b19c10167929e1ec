"""Decoder inputs that replace tokens of the truth by unk, by random ones, or where the model is confident."""

from __future__ import annotations

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.config import ConfidenceAwareConfig, SwitchOutConfig, WordDropoutConfig
from mtkit.training.decoder_inputs.interface import (
    DecoderInput,
    TargetTokens,
    TargetVocabIds,
    no_grad_uncached,
    sample_argmax,
    scored_states,
)


class WordDropout(DecoderInput):
    """Each token of the decoder input except a sentence's first is replaced by unk with probability `rate`.

    Bowman et al. 2016, sec. 3.1, https://arxiv.org/abs/1511.06349. In eval mode the decoder reads the truth.
    """

    def __init__(self, config: WordDropoutConfig, vocab_ids: TargetVocabIds) -> None:
        self.config = config
        self.unk = vocab_ids.unk

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        if not model.training:
            return scored_states(model, batch, batch.target)
        tokens = TargetTokens.of(batch.target)
        tokens = tokens.select(torch.rand(tokens.column.shape, device=tokens.column.device) < self.config.rate)
        return scored_states(model, batch, tokens.replace_in(batch.target, torch.full_like(tokens.column, self.unk)))


class SwitchOut(DecoderInput):
    """In each sentence n tokens of the decoder input are replaced by random ones, p(n) ~ exp(-n / temperature).

    Wang et al. 2018, sec. 3.1, https://arxiv.org/abs/1808.07512, here applied to the decoder input only: labels and
    source are unchanged. The n positions are sampled without replacement and exclude a sentence's first token; the
    new tokens are uniform over those of text. In eval mode the decoder reads the truth.
    """

    def __init__(self, config: SwitchOutConfig, vocab_ids: TargetVocabIds) -> None:
        self.config = config
        self.vocab_ids = vocab_ids

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        target = self.target(batch.target) if model.training and batch.num_sentences else batch.target
        return scored_states(model, batch, target)

    def target(self, target: Target) -> Target:
        """The decoder input."""
        tokens = TargetTokens.of(target)
        # The n tokens of lowest random rank are replaced; 2.0 ranks all other positions behind them.
        key = target.ids.new_full(target.ids.shape, 2.0, dtype=torch.float32)  # [B, T]
        key = key.index_put((tokens.sentence, tokens.column), torch.rand_like(tokens.column, dtype=torch.float32))
        rank = key.argsort(1).argsort(1)  # [B, T]
        max_count = (target.real.sum(1, keepdim=True) - 1).clamp(min=0)  # [B, 1]
        counts = torch.arange(target.ids.size(1), device=target.ids.device)  # [T]
        probability = (-counts / self.config.temperature).exp() * (counts <= max_count)  # [B, T]
        tokens = tokens.select(tokens.gather(rank < torch.multinomial(probability, 1)))
        vocab = self.vocab_ids
        noise = torch.randint(vocab.first_text_id, vocab.end_text_id, tokens.column.shape, device=target.ids.device)
        return tokens.replace_in(target, noise)


class ConfidenceAware(DecoderInput):
    """The choice of each input token depends on the probability of the true token after the true prefix.

    Liu et al. 2021, eq. 7 and 8, https://arxiv.org/abs/2107.10427: up to `golden` the decoder reads the truth, up to
    `random` its most probable token, above that a random token (uniform over those of text). The confidence is
    computed in a separate pass without gradient. In eval mode the decoder reads the truth.
    """

    def __init__(self, config: ConfidenceAwareConfig, vocab_ids: TargetVocabIds) -> None:
        self.config = config
        self.vocab_ids = vocab_ids

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        if not model.training or batch.num_sentences == 0:
            return scored_states(model, batch, batch.target)
        return scored_states(model, batch, self.target(model, batch))

    @no_grad_uncached()
    def target(self, model: TranslationModel, batch: Batch) -> Target:
        """The decoder input."""
        tokens = TargetTokens.of(batch.target)
        if not tokens.column.numel():
            return batch.target
        hidden = model.decode_states(batch.source, batch.target)  # [B, T, D]
        best = tokens.map_logits(model, hidden, sample_argmax)  # [M]
        truth = tokens.gather(batch.target.ids)  # [M]

        def probability(logits: Tensor, ids: Tensor) -> Tensor:
            return logits.float().softmax(-1).gather(1, ids.unsqueeze(1)).squeeze(1)  # [n]

        confidence = tokens.map_logits(model, hidden, probability, truth)  # [M]
        noise = torch.randint(
            self.vocab_ids.first_text_id, self.vocab_ids.end_text_id, truth.shape, device=truth.device
        )
        replacement = torch.where(confidence > self.config.random, noise, best)
        return tokens.replace_in(batch.target, torch.where(confidence > self.config.golden, replacement, truth))
