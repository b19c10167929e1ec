"""What a model is given: padded tensors of ids with explicit positions.

B sentences, S source length, T target length. Nothing assumes that padding is on the right or that positions begin
at 0: `real` says which places hold a token and `pos` says where in its sentence each token stands.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Source:
    """The source side of B sentences; each ends with `eos`."""

    ids: Tensor  # [B, S] int64, padding anywhere
    real: Tensor  # [B, S] bool, True where there is a token
    pos: Tensor  # [B, S] int64

    def to(self, device: torch.device | str) -> Source:
        """The same sentences on another device."""
        return Source(self.ids.to(device), self.real.to(device), self.pos.to(device))

    def select(self, sentences: Tensor) -> Source:
        """The sentences [N] of this batch, in that order."""
        return Source(self.ids[sentences], self.real[sentences], self.pos[sentences])

    def parts(self, places: int) -> list[Source]:
        """The sentences in order, as many together as have at most so many places, but at least one.

        Columns at the end where no sentence of a part has a token are left out of it.
        """
        numbers = torch.arange(1, self.ids.size(1) + 1, device=self.ids.device)
        ends = (numbers * self.real).amax(1).tolist() if self.ids.numel() else []  # where each has its last token
        found, first, used = [], 0, 1
        for row, end in enumerate([*ends, places + 1]):  # what stands for the end of the batch fits nowhere
            longest = max(used, end)
            if row > first and (row + 1 - first) * longest > places:
                found.append(Source(*(x[first:row, :used] for x in (self.ids, self.real, self.pos))))
                first, longest = row, max(1, end)
            used = longest
        return found or [self]


@dataclass(frozen=True)
class Target:
    """The target side as the decoder reads it: `bos` first, `eos` not included."""

    ids: Tensor  # [B, T] int64
    real: Tensor  # [B, T] bool
    pos: Tensor  # [B, T] int64

    def to(self, device: torch.device | str) -> Target:
        """The same sentences on another device."""
        return Target(self.ids.to(device), self.real.to(device), self.pos.to(device))


@dataclass(frozen=True)
class Batch:
    """One micro-batch of parallel sentences.

    `labels` [B, T] holds at each place the piece that follows `target.ids` there (`eos` last); `scored` [B, T] says at
    which places the objective asks for it. `samples` [B] are the sentences' numbers in the training corpus.
    """

    source: Source
    target: Target
    labels: Tensor
    scored: Tensor
    samples: Tensor

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
            scored=self.scored.to(device),
            samples=self.samples,
        )
