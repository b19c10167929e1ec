"""The folder of an exported model: the files of another inference engine, and the metadata that mtkit needs.

```
model.bin, config.json, ...   of CTranslate2, or encoder.onnx and decoder.onnx
mtkit.json                    as config.json of a model folder
spm.model                     or src.model and tgt.model
```
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from mtkit.model_folder.config_file import CONFIG, EXPORTED, MODEL_CARD, read_config
from mtkit.model_folder.folder import ModelMetadata, find_model, read_metadata, read_tokenizers, write_metadata
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


def model_hash(path: Path) -> str:
    """Return the hash of a model or an exported model, from the hashes in its metadata.

    The model card is left out, since it changes with new scores.

    Raises:
        MissingInputError, DataError: the metadata cannot be read.
    """
    fields = read_config(path / EXPORTED if is_exported(path) else find_model(path) / CONFIG)
    files = {name: digest for name, digest in fields["files"].items() if name != MODEL_CARD}
    return hashlib.sha256(json.dumps({**fields, "files": files}, sort_keys=True).encode()).hexdigest()


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
