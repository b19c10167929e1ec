"""The folder of a model that another engine runs: its own files, and what mtkit needs to translate with it.

```
model.bin, config.json, ...   CTranslate2's, or encoder.onnx and decoder.onnx
mtkit.json                    as config.json of a model folder
spm.model                     or src.model and tgt.model
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mtkit.model_folder.folder import (
    EXPORTED,
    Description,
    read_description,
    read_tokenizers,
    verify_model,
    write_description,
)
from mtkit.text.tokenizer import TokenizerPair


@dataclass(frozen=True)
class Exported:
    """What an exported model needs besides its engine's files."""

    folder: Path
    description: Description
    tokenizers: TokenizerPair


def is_exported(folder: Path) -> bool:
    """Whether this is the folder of an exported model."""
    return (folder / EXPORTED).is_file()


def write_belongings(folder: Path, description: Description, tokenizers: TokenizerPair) -> None:
    """Write what an exported model needs besides its engine's files.

    Raises:
        ReadWriteError: a file cannot be written.
    """
    write_description(folder / EXPORTED, description, tokenizers)


def read_belongings(folder: Path) -> Exported:
    """Read what `write_belongings` wrote.

    Raises:
        MissingInputError, DataError: as `read_description` and `read_tokenizers`.
    """
    verify_model(folder, EXPORTED)
    description = read_description(folder, EXPORTED)
    return Exported(folder, description, read_tokenizers(folder, description.tokenizer))
