"""Teacher forcing: the decoder reads the true tokens."""

from __future__ import annotations

from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import TranslationModel


class TeacherForcing:
    """The decoder reads the true tokens. Williams & Zipser 1989."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        return model.decode_states(batch.source, batch.target)[batch.loss_mask]

    def set_update(self, update: int) -> None:
        """Do nothing: the input is the same at every update."""
