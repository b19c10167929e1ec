"""Copies of a model with other weights or settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from mtkit.model_folder.config_file import LEXICON
from mtkit.model_folder.folder import LoadedModel, ModelMetadata, read_model, write_model
from mtkit.model_folder.model_card import model_card


def write_changed_copy(
    folder: Path, loaded: LoadedModel, metadata: ModelMetadata, tensors: Mapping[str, Tensor]
) -> None:
    """Write a copy of a model with other metadata and weights, with a card of its own and the model's lexicon.

    Raises:
        DataError: the weights do not fit the metadata: the copy, which has been written, cannot be read.
        ReadWriteError: the folder cannot be written.
    """
    lexicon = loaded.folder / LEXICON
    card = model_card(metadata, {}, num_parameters=sum(tensor.numel() for tensor in tensors.values()))
    write_model(folder, tensors, metadata, loaded.tokenizers, card=card, lexicon=lexicon if lexicon.is_file() else None)
    read_model(folder)
