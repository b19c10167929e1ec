"""Where in a line sentences end, known by the pieces that end them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class SentenceEnds(nn.Module):
    """Which pieces end a sentence: a table [V] that is saved with the weights and never learned.

    The layers above know no vocabulary, so that whoever has the tokenizer fills the table before training. It holds 0
    and 1 as floats, which every average of weights leaves as they are.
    """

    table: Tensor

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(vocab))

    def mark(self, ids: Sequence[int]) -> None:
        """These pieces end a sentence, and no others."""
        self.table.zero_()
        self.table[list(ids)] = 1.0

    def forward(self, ids: Tensor) -> Tensor:
        """Which of ids [B, S] end a sentence, [B, S] bool."""
        return self.table[ids] > 0.5
