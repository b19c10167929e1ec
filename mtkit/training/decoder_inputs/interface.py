"""The protocol of decoder inputs, and the ids of the target vocabulary that they use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import TranslationModel


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
        first_text_id: the tokens of text are first_text_id ... end_text_id - 1.
        end_text_id: see first_text_id.
        pad: fills a batch.
        unk: replaces text that no other token covers.
        bos: the first token that the decoder reads.
        eos: ends a sentence.
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
