"""The input of a model: padded tensors of token ids with explicit positions.

B sentences, S source length, T target length. Nothing assumes that padding is on the right or that positions start at
0: `real` (the complement of a padding mask) marks tokens, and `pos` is the position of each token in its sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Source:
    """The source side of B sentences; each ends with `eos`."""

    ids: Tensor  # [B, S] int64, padding anywhere
    real: Tensor  # [B, S] bool, False at padding
    pos: Tensor  # [B, S] int64

    def to(self, device: torch.device | str) -> Source:
        """The same sentences on another device."""
        return Source(self.ids.to(device), self.real.to(device), self.pos.to(device))

    def select(self, sentences: Tensor) -> Source:
        """The sentences [N] of this batch, in that order."""
        return Source(self.ids[sentences], self.real[sentences], self.pos[sentences])

    def split_by_padded_tokens(self, max_padded_tokens: int) -> list[Source]:
        """Consecutive chunks of at most `max_padded_tokens` tokens including padding, but at least one sentence each.

        Trailing columns in which no sentence of a chunk has a token are removed from the chunk.
        """
        numbers = torch.arange(1, self.ids.size(1) + 1, device=self.ids.device)
        ends = (numbers * self.real).amax(1).tolist() if self.ids.numel() else []  # column after each last token
        chunks, first, width = [], 0, 1
        for row, end in enumerate([*ends, max_padded_tokens + 1]):  # the sentinel at the end fits into no chunk
            new_width = max(width, end)
            if row > first and (row + 1 - first) * new_width > max_padded_tokens:
                chunks.append(Source(*(x[first:row, :width] for x in (self.ids, self.real, self.pos))))
                first, new_width = row, max(1, end)
            width = new_width
        return chunks or [self]


@dataclass(frozen=True)
class Target:
    """The decoder input in teacher forcing: `bos` first, `eos` not included."""

    ids: Tensor  # [B, T] int64
    real: Tensor  # [B, T] bool, False at padding
    pos: Tensor  # [B, T] int64

    def to(self, device: torch.device | str) -> Target:
        """The same sentences on another device."""
        return Target(self.ids.to(device), self.real.to(device), self.pos.to(device))


@dataclass(frozen=True)
class Batch:
    """One micro-batch of parallel sentences.

    Attributes:
        labels: [B, T] int64, the token that follows `target.ids` at each position (`eos` last).
        loss_mask: [B, T] bool, True where the label counts in the loss.
        sample_ids: [B] int64, index of each sentence in the training corpus; stays on the CPU.
    """

    source: Source
    target: Target
    labels: Tensor
    loss_mask: Tensor
    sample_ids: Tensor

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.labels.size(0)

    def to(self, device: torch.device | str) -> Batch:
        """The same micro-batch on another device."""
        return Batch(
            source=self.source.to(device),
            target=self.target.to(device),
            labels=self.labels.to(device),
            loss_mask=self.loss_mask.to(device),
            sample_ids=self.sample_ids,
        )
