"""The model folder: everything that translating raw text needs, without dates, paths or host names.

```
model.safetensors    weights; tied weights are stored once, and equal weights give equal bytes
config.json          format, version, hashes of the files, languages, tokenizer, model, default search, and the length
                     of the longest training source
spm.model            or src.model and tgt.model
lexicon.safetensors  likely target tokens of each source token, for the shortlist; optional
README.md            the model card
```
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from mtkit import __version__
from mtkit.errors import DamagedError, DataError, FormatError, MissingInputError, RecipeError, UsageError
from mtkit.io.files import (
    atomic_folder,
    changed_files,
    hash_file,
    load_json,
    translate_read_errors,
    write_bytes,
    write_json,
    write_text,
)
from mtkit.models import AnyModelConfig
from mtkit.models.interface import TranslationModel
from mtkit.recipe import schema
from mtkit.recipe.recipe import to_plain, with_location
from mtkit.search.config import SearchConfig
from mtkit.text.tokenizer import Tokenizer, TokenizerConfig, TokenizerPair, model_names
from mtkit.training.checkpoints.tensor_file import write_tensors
from mtkit.training.weights import mismatches

FORMAT = 2  # raised when models of older versions can no longer be read, or new ones not by older versions
WEIGHTS, CONFIG, MODEL_CARD, LEXICON = "model.safetensors", "config.json", "README.md", "lexicon.safetensors"
EXPORTED = "mtkit.json"  # replaces CONFIG in the folder of an exported model, see exported.py

_REMEDY = "mtkit train makes the model of a run again; copy or download any other model again"
_TRAIN_AGAIN = "train it again"


@dataclass(frozen=True, kw_only=True)
class ModelMetadata:
    """Content of config.json, except format, version and hashes.

    Attributes:
        max_source_length: tokens of the longest training source; longer sources are out of domain.
        search: default search configuration.
    """

    src_lang: str
    tgt_lang: str
    max_source_length: Annotated[int, Field(gt=0)]
    tokenizer: TokenizerConfig
    model: AnyModelConfig
    search: SearchConfig


@dataclass(frozen=True)
class LoadedModel:
    """A model that was read from a folder, in eval mode."""

    folder: Path
    metadata: ModelMetadata
    tokenizers: TokenizerPair
    model: TranslationModel


def write_model(
    folder: Path,
    tensors: Mapping[str, Tensor],
    metadata: ModelMetadata,
    tokenizers: TokenizerPair,
    *,
    card: str,
    lexicon: Path | None = None,
) -> None:
    """Write a model folder; an existing one is replaced when the new one is complete.

    Args:
        folder: path of the model folder.
        tensors: the weights, with the names of `training.weights.weights`.
        metadata: content of config.json.
        tokenizers: of both sides.
        card: content of README.md.
        lexicon: file of the lexicon, which is copied; None: the model has no shortlist.

    Raises:
        ReadWriteError: the folder cannot be written.
    """
    with atomic_folder(folder) as temporary:
        hashes = {WEIGHTS: write_tensors(temporary / WEIGHTS, tensors)}
        if lexicon is not None:
            with translate_read_errors(lexicon):
                write_bytes(temporary / LEXICON, lexicon.read_bytes())
            hashes[LEXICON] = hash_file(temporary / LEXICON)
        write_metadata(temporary / CONFIG, metadata, tokenizers, hashes)
        write_text(temporary / MODEL_CARD, card)


def write_metadata(
    path: Path, metadata: ModelMetadata, tokenizers: TokenizerPair, hashes: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Write a metadata file, and the sentencepiece models into the same folder.

    Args:
        path: the metadata file.
        metadata: its content.
        tokenizers: of both sides.
        hashes: SHA-256 of other files in the folder, by name; see `verify_model`.

    Raises:
        ReadWriteError: a file cannot be written.
    """
    models = dict(zip(model_names(tokenizers.shared), (tokenizers.src, tokenizers.tgt), strict=False))
    for name, tokenizer in models.items():
        tokenizer.save(path.parent / name)
    hashes = {**hashes, **{name: tokenizer.hash() for name, tokenizer in models.items()}}
    write_json(path, {"format": FORMAT, "mtkit": __version__, "sha256": hashes, **to_plain(metadata)})


def update_search_config(folder: Path, search: SearchConfig) -> None:
    """Change the default search configuration of a model.

    Raises:
        MissingInputError, DataError, ReadWriteError: as `files.load_json` and `files.write_json`.
    """
    path = folder / CONFIG
    content = load_json(path, remedy=_REMEDY)
    if content["search"] != to_plain(search):
        write_json(path, {**content, "search": to_plain(search)})


def find_model(path: Path) -> Path:
    """Return the model folder at a path: the path itself, or the model folder inside a run folder.

    Raises:
        MissingInputError: there is none; the message says what is missing.
        UsageError: the path is the folder of an exported model.
    """
    if (path / EXPORTED).is_file():
        raise UsageError(f"{path}: an exported model, which only mtkit translate and mtkit bench can use")
    for folder in (path, path / "model"):
        if (folder / CONFIG).is_file():
            return folder
    if path.is_file():
        raise MissingInputError(f"{path}: a file; MODEL must be a model folder or the folder of a finished run")
    if not path.exists():
        raise MissingInputError(f"{path}: no such folder; MODEL must be a model folder or the folder of a finished run")
    if (path / "recipe.yaml").is_file():
        raise MissingInputError(
            f"{path}: this run has no model yet, since its training is not finished; continue with "
            f"mtkit train {shlex.quote(str(path / 'recipe.yaml'))} --run-dir {shlex.quote(str(path))}"
        )
    raise MissingInputError(f"{path}: neither a model folder nor a run folder; it has no {CONFIG}")


def read_metadata(folder: Path, name: str = CONFIG) -> ModelMetadata:
    """Read config.json of a model folder, or a file of another name that `write_metadata` wrote.

    Raises:
        MissingInputError: it does not exist.
        FormatError: another version of mtkit wrote it in a format, or with keys, that this one does not read.
        DataError: it is damaged.
    """
    path = folder / name
    fields: dict[str, Any] = {"format": None, "mtkit": None, **load_json(path, remedy=_REMEDY)}
    version, writer, _ = fields.pop("format"), str(fields.pop("mtkit")), fields.pop("sha256", None)
    if type(version) is not int or version < 1:
        raise DamagedError(f"{path}: damaged: format is not a number", _REMEDY)
    if version != FORMAT:
        reason = f"in model format {version}, but mtkit {__version__} reads format {FORMAT}"
        raise FormatError(path, writer, reason, _TRAIN_AGAIN)
    try:
        metadata: ModelMetadata = schema.build(ModelMetadata, with_location(fields, str(path), folder))
    except RecipeError as error:
        if writer == __version__:
            raise DataError(f"{error}; the file was edited, undo the change to it") from error
        reason = f"with keys that mtkit {__version__} does not read ({str(error).partition(chr(10))[0]})"
        raise FormatError(path, writer, reason, _TRAIN_AGAIN) from error
    return metadata


def verify_model(folder: Path, name: str = CONFIG) -> None:
    """Compare the files of a model folder with the hashes in its metadata, if it has any.

    The lexicon may be missing, since a model translates without it.

    Raises:
        MissingInputError: there is no metadata file.
        DamagedError: files are missing or changed; all are listed.
    """
    hashes = load_json(folder / name, remedy=_REMEDY).get("sha256", {})
    if damaged := changed_files(
        folder, {file: hashes[file] for file in hashes if file != LEXICON or (folder / file).is_file()}
    ):
        raise DamagedError(f"{folder}: damaged: {', '.join(damaged)} not as written", _REMEDY)


def read_tokenizers(folder: Path, config: TokenizerConfig) -> TokenizerPair:
    """Read the sentencepiece models of a model folder.

    Raises:
        MissingInputError, DataError: as `Tokenizer.load`.
    """
    sides = [Tokenizer.load(folder / name, normalisation=config.normalisation) for name in model_names(config.shared)]
    return TokenizerPair(src=sides[0], tgt=sides[-1], config=config)


def read_model(path: Path) -> LoadedModel:
    """Read the model of a model folder or of a finished run; its weights are memory-mapped.

    Raises:
        MissingInputError: there is no model, or one of its files is missing.
        DataError: a file is damaged or does not match the others, or another version of mtkit wrote it (FormatError).
    """
    folder = find_model(path)
    with ThreadPoolExecutor(1) as executor:  # hashing the files takes as long as building the model
        verification = executor.submit(verify_model, folder)
        metadata = read_metadata(folder)
        tokenizers = read_tokenizers(folder, metadata.tokenizer)
        try:
            model = metadata.model.build(tokenizers.src.vocab.size, tokenizers.tgt.vocab.size)
            mmap_weights(model, folder / WEIGHTS)
        except ValueError as error:
            raise DataError(f"{folder / WEIGHTS}: {error}") from error
        verification.result()
    return LoadedModel(folder, metadata, tokenizers, model.eval())


def mmap_weights(model: TranslationModel, path: Path) -> None:
    """Replace the weights of a model by those of a file, memory-mapped instead of copied.

    Raises:
        MissingInputError, ReadWriteError: as `files.translate_read_errors`.
        DataError: not a safetensors file.
        ValueError: weights are missing, unknown or of another shape; the first three are listed.
    """
    with translate_read_errors(path):
        try:
            tensors = load_file(path)
        except SafetensorError as error:
            raise DamagedError(f"{path}: damaged, or not in the safetensors format", _REMEDY) from error
    if errors := mismatches(model, tensors):
        listed = "; ".join(errors[:3]) + (f"; and {len(errors) - 3} more" if len(errors) > 3 else "")
        raise ValueError(f"the weights do not match the model: {listed}")
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, tensor in tensors.items():
        own[name].data = tensor  # tied weights are one Parameter, so all uses change
