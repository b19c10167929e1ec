"""Recurrent sequence-to-sequence model without attention: the source becomes one vector of fixed width.

Sutskever et al. 2014. https://arxiv.org/abs/1409.3215
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.cache.state import EmptyState
from mtkit.layers.dropout import PerStepDropout
from mtkit.layers.recurrent.cells import CellState
from mtkit.layers.recurrent.stack import RecurrentStack
from mtkit.models.embeddings import ScaledEmbedding, TiedEmbeddings
from mtkit.models.interface import State, Step, TranslationModel
from mtkit.models.rnn.attentional import RNNCache


class Seq2SeqRNN(TranslationModel):
    """Recurrent encoder and decoder; each decoder layer starts from the final state of the same encoder layer.

    Args:
        embeddings: of both sides, and the output projection.
        encoder: as many layers as `decoder`.
        decoder: see `encoder`.
        readout: from the decoder's width to the embedding width.
        dropout: of embeddings and of the readout's input.
        reverse_source: encode the source from its last token to its first.
    """

    def __init__(
        self,
        embeddings: TiedEmbeddings,
        encoder: RecurrentStack,
        decoder: RecurrentStack,
        *,
        readout: nn.Module,
        dropout: PerStepDropout,
        reverse_source: bool,
    ) -> None:
        super().__init__()
        self.src_embedding = ScaledEmbedding(embeddings.src, dropout)
        self.tgt_embedding = ScaledEmbedding(embeddings.tgt, dropout)
        self.encoder = encoder
        self.decoder = decoder
        self.dropout = dropout
        self.readout = readout
        self.output = embeddings.output
        self.reverse_source = reverse_source

    def encode(self, source: Source) -> tuple[CellState, ...]:
        """Encode the source into the final state of each encoder layer."""
        ids, real = source.ids, source.real
        if self.reverse_source:
            ids, real = ids.flip(1), real.flip(1)  # leading padding leaves the state at zero
        _, ends = self.encoder(self.src_embedding(ids), real)
        return ends  # type: ignore[no-any-return]

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the reference prefix; D is the readout's width."""
        x, _ = self.decoder(self.tgt_embedding(target.ids), target.real, self.encode(source))
        return self._readout(x)

    def start(self, source: Source) -> State:
        """See TranslationModel."""
        rows = source.ids.size(0)
        cache = RNNCache(self.encode(source))
        return State(
            EmptyState(),  # without attention the source is in the cache
            cache,
            num_sentences=rows,
            num_rows=rows,
            output_projection=self.output,
        )

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel; the attention of the result is None."""
        if not isinstance(state.cache, RNNCache):
            raise ValueError(f"state of another model: {type(state.cache).__name__}")
        x, layers = self.decoder.step(self.tgt_embedding(token), state.cache.layers)
        return Step(self._readout(x), replace(state, cache=RNNCache(layers)), None)

    def _readout(self, x: Tensor) -> Tensor:
        return self.readout(self.dropout(x))  # type: ignore[no-any-return]
