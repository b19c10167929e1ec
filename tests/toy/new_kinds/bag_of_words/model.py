"""Bag of words: the decoder reads the mean of the source embeddings and the preceding token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.cache import BatchedState, EmptyState
from mtkit.layers.projections import linear
from mtkit.models.embeddings import TiedEmbeddings
from mtkit.models.interface import State, Step, TranslationModel


@dataclass(frozen=True)
class BagMemory(BatchedState):
    """The mean of the source embeddings [B, D]."""

    mean: Tensor


class BagOfWords(TranslationModel):
    """h = tanh(W (mean of the source + preceding token))."""

    def __init__(self, embeddings: TiedEmbeddings) -> None:
        super().__init__()
        self.src_embedding, self.tgt_embedding, self.output = embeddings
        self.hidden = linear(self.tgt_embedding.embedding_dim, self.tgt_embedding.embedding_dim)

    def encode(self, source: Source) -> Tensor:
        """The mean of the embeddings [B, D]."""
        real = source.real.unsqueeze(-1)  # [B, S, 1]
        return (self.src_embedding(source.ids) * real).sum(1) / real.sum(1)

    def decode(self, ids: Tensor, mean: Tensor) -> Tensor:
        """ids [...] and mean [..., D] -> [..., D]."""
        return torch.tanh(self.hidden(self.tgt_embedding(ids) + mean))

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """See TranslationModel."""
        return self.decode(target.ids, self.encode(source).unsqueeze(1))

    def start(self, source: Source) -> State:
        """See TranslationModel."""
        rows = source.ids.size(0)
        return State(
            BagMemory(self.encode(source)),
            EmptyState(),
            num_sentences=rows,
            num_rows=rows,
            output_projection=self.output,
        )

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel."""
        mean = state.memory.mean.repeat_interleave(state.num_rows // state.num_sentences, dim=0)  # [rows, D]
        return Step(self.decode(token, mean), state, None)
