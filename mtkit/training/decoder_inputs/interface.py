"""The protocol of decoder inputs, and the tokens of a decoder input that can be replaced by predictions or noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import TranslationModel
from mtkit.training.chunked_loss import CHUNK_SIZE
from mtkit.training.decoder_inputs.config import SamplerName


class DecoderInput(ABC):
    """Runs the decoder over a micro-batch and determines the tokens that it reads."""

    @abstractmethod
    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """Decoder states [N, D] at the positions of `loss_mask`, sentence by sentence from left to right."""

    def set_update(self, update: float) -> None:  # noqa: B027 (most inputs are the same at every update)
        """Set the number of the update that is computed next (1 is the first)."""


@dataclass(frozen=True)
class TargetVocabIds:
    """Size and ids of the target vocabulary.

    Attributes:
        size: V, the number of tokens.
        first_text_id, end_text_id: the tokens of text are first_text_id ... end_text_id - 1.
    """

    size: int
    first_text_id: int
    end_text_id: int
    pad: int
    unk: int
    bos: int
    eos: int


@contextmanager
def no_grad_uncached() -> Iterator[None]:
    """`torch.no_grad` with autocast's weight cache turned off.

    Autocast caches the weights that it has cast. Before torch 2.13, weights cast in a block without gradient were
    reused by the pass with gradient, which then computed none for them.
    """
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_autocast_cache_enabled(before)


class TargetTokens(NamedTuple):
    """M tokens of the decoder input, sentence by sentence; the first token of a sentence is never among them.

    Attributes:
        sentence, column: [M] the position of each token in the batch.
        previous_column: [M] the column of the token before it; padding may lie between.
        index_in_sentence: [M] the number of tokens of the sentence before it.
    """

    sentence: Tensor
    column: Tensor
    previous_column: Tensor
    index_in_sentence: Tensor

    @classmethod
    def of(cls, target: Target) -> TargetTokens:
        """All tokens except the first of each sentence; padding may be anywhere."""
        columns = torch.arange(target.ids.size(1), device=target.ids.device).expand_as(target.ids)  # [B, T]
        last = torch.where(target.real, columns, 0).cummax(1).values  # [B, T], column of the last token so far
        index = target.real.cumsum(1) - 1  # [B, T]
        sentence, column = (target.real & (index > 0)).nonzero(as_tuple=True)  # [M]
        return cls(sentence, column, last[sentence, column - 1], index[sentence, column])

    def select(self, selected: Tensor) -> TargetTokens:
        """The tokens at which `selected` [M] is True."""
        return TargetTokens(*(each[selected] for each in self))

    def replace_in(self, target: Target, ids: Tensor) -> Target:
        """The target with these tokens replaced by `ids` [M]."""
        return replace(target, ids=target.ids.index_put((self.sentence, self.column), ids))

    def gather(self, values: Tensor) -> Tensor:
        """The values [B, T] at these tokens, [M]."""
        return values[self.sentence, self.column]

    def map_logits(
        self, model: TranslationModel, hidden: Tensor, function: Callable[..., Tensor], *aligned: Tensor
    ) -> Tensor:
        """`function(logits [n, V], ...)` of the model's predictions of these tokens, [M].

        Args:
            model: projects states to logits, CHUNK_SIZE tokens at a time.
            hidden: [B, T, D] decoder states.
            function: takes the logits of n tokens, and the values of the same tokens in each of `aligned`.
            aligned: tensors [M].
        """
        states = hidden[self.sentence, self.previous_column]  # [M, D]
        chunks = zip(*(torch.split(each, CHUNK_SIZE) for each in (states, *aligned)), strict=True)
        return torch.cat([function(model.output(chunk), *others) for chunk, *others in chunks])


def scored_states(model: TranslationModel, batch: Batch, target: Target) -> Tensor:
    """Decoder states [N, D] at the positions of `loss_mask`, for a micro-batch whose decoder reads `target`."""
    return model.decode_states(batch.source, target)[batch.loss_mask]


TokenSampler = Callable[[Tensor], Tensor]  # logits [N, V] -> ids [N]


def sample_argmax(logits: Tensor) -> Tensor:
    """The most probable token."""
    return logits.float().argmax(-1)  # argmax is slow in bf16


def sample_multinomial(logits: Tensor) -> Tensor:
    """A token sampled from the model's distribution."""
    return torch.multinomial(logits.float().softmax(-1), 1).squeeze(1)


def sample_gumbel(logits: Tensor) -> Tensor:
    """Gumbel-max sampling: argmax of logits + Gumbel noise, a sample from the softmax without computing it.

    Maddison et al. 2014, sec. 2, https://arxiv.org/abs/1411.0030.
    """
    exponential = torch.empty_like(logits, dtype=torch.float32).exponential_()
    return (logits.float() - exponential.log()).argmax(-1)  # -log of an exponential variate is a Gumbel variate


SAMPLERS: dict[SamplerName, TokenSampler] = {
    "argmax": sample_argmax,
    "multinomial": sample_multinomial,
    "gumbel": sample_gumbel,
}


def make_sampler(name: SamplerName, temperature: float) -> TokenSampler:
    """The sampler of that name for softmax(logits / temperature); argmax does not depend on the temperature."""
    sample = SAMPLERS[name]
    return sample if temperature == 1.0 else lambda logits: sample(logits / temperature)
