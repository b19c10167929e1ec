"""The model folder: all that translating raw text needs, and nothing of the place where it was made.

```
model.safetensors   weights, tied ones once; equal weights are equal bytes
config.json         versions, hashes of the files, languages, tokenizer, model, default search, longest training source
spm.model           or src.model and tgt.model
lexicon.safetensors which target pieces a source piece becomes, for the shortlist; not in every model
README.md           the model card
```
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from mtkit import __version__
from mtkit.errors import DamagedError, DataError, MissingInputError, RecipeError, UsageError
from mtkit.io.files import (
    build_folder,
    changed_files,
    hash_file,
    load_json,
    reading,
    write_bytes,
    write_json,
    write_text,
)
from mtkit.models.interface import TranslationModel
from mtkit.recipe import schema
from mtkit.recipe.recipe import ModelConfig, plain, stated
from mtkit.search.config import SearchConfig
from mtkit.text.tokenizer import Tokenizer, TokenizerConfig, TokenizerPair, model_names
from mtkit.training.checkpoints.tensor_file import write_tensors
from mtkit.training.weights import mismatches

FORMAT = 1  # raised when older programs could not read a model any more


WEIGHTS, CONFIG, CARD, LEXICON = "model.safetensors", "config.json", "README.md", "lexicon.safetensors"


EXPORTED = "mtkit.json"  # what an exported model has in place of CONFIG (see exported_model.py)


@dataclass(frozen=True, kw_only=True)
class Description:
    """What config.json says besides the versions.

    Attributes:
        longest_source: pieces of the longest source that was trained on; longer ones are new to the model.
        search: what is used unless a command says otherwise.
    """

    src_lang: str
    tgt_lang: str
    longest_source: int
    tokenizer: TokenizerConfig
    model: ModelConfig
    search: SearchConfig


@dataclass(frozen=True)
class Loaded:
    """A model that was read, ready to translate."""

    folder: Path
    description: Description
    tokenizers: TokenizerPair
    model: TranslationModel


def write_model(
    folder: Path,
    tensors: Mapping[str, Tensor],
    description: Description,
    tokenizers: TokenizerPair,
    *,
    card: str,
    lexicon: Path | None = None,
) -> None:
    """Write a model folder; an existing one is replaced when the new one is whole.

    Args:
        folder: where it comes to be.
        tensors: the weights, as `training.weights.weights` names them.
        description: all but the weights.
        tokenizers: of both sides.
        card: the text of README.md.
        lexicon: the file of the corpus's lexicon, which is copied; None: the model has no shortlist.

    Raises:
        ReadWriteError: the folder cannot be written.
    """
    with build_folder(folder) as temporary:
        hashes = {WEIGHTS: write_tensors(temporary / WEIGHTS, tensors)}
        if lexicon is not None:
            with reading(lexicon):
                write_bytes(temporary / LEXICON, lexicon.read_bytes())
            hashes[LEXICON] = hash_file(temporary / LEXICON)
        write_description(temporary / CONFIG, description, tokenizers, hashes)
        write_text(temporary / CARD, card)


def write_description(
    path: Path, description: Description, tokenizers: TokenizerPair, hashes: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Write a description, and beside it the sentencepiece models.

    Args:
        path: of the description.
        description: all but the weights.
        tokenizers: of both sides.
        hashes: SHA-256 of other files in the folder, by name; see `verify_model`.

    Raises:
        ReadWriteError: a file cannot be written.
    """
    models = dict(zip(model_names(tokenizers.shared), (tokenizers.src, tokenizers.tgt), strict=False))
    for name, tokenizer in models.items():
        tokenizer.save(path.parent / name)
    hashes = {**hashes, **{name: tokenizer.hash() for name, tokenizer in models.items()}}
    write_json(path, {"format": FORMAT, "mtkit": __version__, "sha256": hashes, **plain(description)})


def change_search(folder: Path, search: SearchConfig) -> None:
    """Make `search` what a model translates with unless a command says otherwise.

    Raises:
        MissingInputError, DataError, ReadWriteError: as `files.load_json` and `files.write_json`.
    """
    path = folder / CONFIG
    content = load_json(path, remedy=_REMEDY)
    if content["search"] != plain(search):
        write_json(path, {**content, "search": plain(search)})


def find_model(path: Path) -> Path:
    """The model folder that a path means: itself, or the one inside a run folder.

    Raises:
        MissingInputError: there is none; says what is missing.
        UsageError: it is the folder of an exported model.
    """
    if (path / EXPORTED).is_file():
        raise UsageError(f"{path}: is an exported model; only mtkit translate and mtkit bench take it")
    for folder in (path, path / "model"):
        if (folder / CONFIG).is_file():
            return folder
    if path.is_file():
        raise MissingInputError(f"{path}: a file; MODEL is a model folder or the folder of a finished run")
    if not path.exists():
        raise MissingInputError(f"{path}: no such folder; MODEL is a model folder or the folder of a finished run")
    if (path / "recipe.yaml").is_file():
        raise MissingInputError(
            f"{path}: this run has no model yet, its training is not finished; go on with "
            f"mtkit train {shlex.quote(str(path / 'recipe.yaml'))} --run-dir {shlex.quote(str(path))}"
        )
    raise MissingInputError(f"{path}: neither a model folder nor a run folder; it has no {CONFIG}")


def read_description(folder: Path, name: str = CONFIG) -> Description:
    """Read config.json of a model folder, or the file of another name that `write_description` wrote.

    Raises:
        MissingInputError: it is not there.
        DataError: it is damaged, or of a later version.
    """
    path = folder / name
    fields: dict[str, Any] = {"format": None, "mtkit": None, **load_json(path, remedy=_REMEDY)}
    version, made_by, _ = fields.pop("format"), fields.pop("mtkit"), fields.pop("sha256", None)
    if type(version) is not int or version < 1:
        raise DamagedError(f"{path}: damaged: its format is no number", _REMEDY)
    if version != FORMAT:
        raise DataError(f"{path}: has format {version}, written by mtkit {made_by}; this mtkit reads format {FORMAT}")
    try:
        description: Description = schema.build(Description, stated(fields, str(path), folder))
    except RecipeError as error:
        raise DataError(f"{error}\nthe model was written by mtkit {made_by}, this is {__version__}") from error
    return description


def verify_model(folder: Path, name: str = CONFIG) -> None:
    """Compare the files of a model folder with the hashes in its description; one without hashes is not compared.

    The lexicon may be missing: a model translates without.

    Raises:
        MissingInputError: there is no description.
        DamagedError: names all files that are missing or were changed.
    """
    hashes = load_json(folder / name, remedy=_REMEDY).get("sha256", {})
    if damaged := changed_files(
        folder, {file: hashes[file] for file in hashes if file != LEXICON or (folder / file).is_file()}
    ):
        raise DamagedError(f"{folder}: damaged: {', '.join(damaged)} not as written", _REMEDY)


_REMEDY = "mtkit train makes the model of a run again; copy or download any other one again"


def read_tokenizers(folder: Path, config: TokenizerConfig) -> TokenizerPair:
    """Read the sentencepiece models of a model folder.

    Raises:
        MissingInputError, DataError: as `Tokenizer.load`.
    """
    sides = [Tokenizer.load(folder / name, normalisation=config.normalisation) for name in model_names(config.shared)]
    return TokenizerPair(src=sides[0], tgt=sides[-1], config=config)


def read_model(path: Path) -> Loaded:
    """Read the model of a model folder or of a finished run; its weights are memory-mapped.

    Raises:
        MissingInputError: there is no model, or a file of it is missing.
        DataError: a file is damaged, or does not fit the others.
    """
    folder = find_model(path)
    with ThreadPoolExecutor(1) as beside:  # hashing takes 0.1 s for 100 MB, building the model as long
        verified = beside.submit(verify_model, folder)
        description = read_description(folder)
        tokenizers = read_tokenizers(folder, description.tokenizer)
        try:
            model = description.model.build(tokenizers.src.vocab.size, tokenizers.tgt.vocab.size)
            map_weights(model, folder / WEIGHTS)
        except ValueError as error:
            raise DataError(f"{folder / WEIGHTS}: {error}") from error
        verified.result()
    return Loaded(folder, description, tokenizers, model.eval())


def map_weights(model: TranslationModel, path: Path) -> None:
    """Give a model the weights of a file without copying them.

    Raises:
        MissingInputError, ReadWriteError: as `files.reading`.
        DataError: it is not a file of tensors.
        ValueError: they are not this model's; names those that are missing, unknown or of another shape.
    """
    with reading(path):
        try:
            tensors = load_file(path)
        except SafetensorError as error:
            raise DamagedError(f"{path}: damaged, or not in the safetensors format", _REMEDY) from error
    if faults := mismatches(model, tensors):
        shown = "; ".join(faults[:3]) + (f"; and {len(faults) - 3} more" if len(faults) > 3 else "")
        raise ValueError(f"these are not the weights of this model: {shown}")
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, tensor in tensors.items():
        own[name].data = tensor  # tied places share the Parameter, so they follow
