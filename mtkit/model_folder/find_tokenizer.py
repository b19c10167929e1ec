"""Tokenizers by path: of a model file, a model folder, or a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mtkit.errors import MissingInputError
from mtkit.model_folder.folder import find_model, read_metadata, read_tokenizers
from mtkit.text.subword.import_tokenizer import ImportedTokenizer, import_tokenizer
from mtkit.text.tokenizer import TokenizerPair


def find_tokenizer(path: Path, side: Literal["src", "tgt"]) -> ImportedTokenizer:
    """Read the tokenizer of one side.

    Args:
        path: a subword model as `import_tokenizer` reads it; a model folder; or a run folder, whose training need not
            be finished.
        side: source or target; without effect if both have the same tokenizer.

    Raises:
        MissingInputError, DataError, ReadWriteError: as `import_tokenizer`, `TokenizerPair.load` and `read_metadata`.
    """
    if not path.exists() and (trained := path.with_name(f"{path.name}.model")).is_file():  # by `train-bpe -o path`
        raise MissingInputError(f"{path}: no such file; did you mean {trained}?")
    if not path.is_dir():
        return import_tokenizer(path)
    for folder in (path, path / "tokenizer"):
        if (folder / "tokenizer.json").is_file():
            pair = TokenizerPair.load(folder)
            break
    else:
        folder = find_model(path)
        pair = read_tokenizers(folder, read_metadata(folder))
    return ImportedTokenizer(pair.src if side == "src" else pair.tgt, pair.config.model_type)
