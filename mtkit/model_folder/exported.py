"""The folder of an exported model: the files of another inference engine, and the metadata that mtkit needs.

```
model.bin, config.json, ...   of CTranslate2, or encoder.onnx and decoder.onnx
mtkit.json                    as config.json of a model folder
spm.model                     or src.model and tgt.model
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mtkit.model_folder.config_file import EXPORTED
from mtkit.model_folder.folder import ModelMetadata, read_metadata, read_tokenizers, write_metadata
from mtkit.text.tokenizer import TokenizerPair


@dataclass(frozen=True)
class ExportedModel:
    """Metadata and tokenizers of an exported model."""

    folder: Path
    metadata: ModelMetadata
    tokenizers: TokenizerPair


def is_exported(folder: Path) -> bool:
    """Return whether this is the folder of an exported model."""
    return (folder / EXPORTED).is_file()


def write_exported_metadata(folder: Path, metadata: ModelMetadata, tokenizers: TokenizerPair) -> None:
    """Write tokenizers and metadata into a folder that has the files of the other engine.

    Raises:
        ReadWriteError: a file cannot be written.
    """
    write_metadata(folder / EXPORTED, metadata, tokenizers)


def read_exported_model(folder: Path) -> ExportedModel:
    """Read metadata and tokenizers of an exported model, inside a block of `verified`.

    Raises:
        MissingInputError, DataError: as `read_metadata` and `read_tokenizers`.
    """
    metadata = read_metadata(folder, EXPORTED)
    return ExportedModel(folder, metadata, read_tokenizers(folder, metadata))
