"""SwitchOut on the decoder input: some tokens are replaced by random ones."""

from __future__ import annotations

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.decoder_inputs.target_tokens import TargetTokens, scored_states


class SwitchOut:
    """In each sentence n tokens of the decoder input are replaced by random ones, p(n) ~ exp(-n / temperature).

    Wang et al. 2018, sec. 3.1, https://arxiv.org/abs/1808.07512, here applied to the decoder input only: labels and
    source are unchanged. The n positions are sampled without replacement and exclude a sentence's first token; the
    new tokens are uniform over those of text. In eval mode the decoder reads the truth.

    Args:
        temperature: larger values replace more tokens; 1 replaces about half a token per sentence.
        vocab_ids: ids of the target vocabulary.
    """

    def __init__(self, temperature: float, vocab_ids: TargetVocabIds) -> None:
        self.temperature = temperature
        self.vocab_ids = vocab_ids

    def set_update(self, update: int) -> None:
        """Do nothing: the noise is the same at every update."""

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
        tokens = tokens.select(tokens.gather(rank < self._counts(target).unsqueeze(1)))
        vocab = self.vocab_ids
        noise = torch.randint(vocab.first_text_id, vocab.end_text_id, tokens.column.shape, device=target.ids.device)
        return tokens.replace_in(target, noise)

    def _counts(self, target: Target) -> Tensor:
        """The number of tokens to replace in each sentence, [B]."""
        max_count = (target.real.sum(1, keepdim=True) - 1).clamp(min=0)  # [B, 1]
        counts = torch.arange(target.ids.size(1), device=target.ids.device)  # [T]
        probability = (-counts / self.temperature).exp() * (counts <= max_count)  # [B, T]
        return torch.multinomial(probability, 1).squeeze(1)
