"""The model folder: everything that translating raw text needs, without dates, paths or host names.

```
model.safetensors    weights; tied weights are stored once, and equal weights give equal bytes
config.json          format, version, hashes of the other files (see config_file.py), languages, tokenizer, model,
                     default search, and numbers of the training text: its longest source, the share of its sources
                     that have several sentences, and its length ratio
spm.model            or src.model and tgt.model
lexicon.safetensors  likely target tokens of each source token (IBM Model 1), for mtkit explain, and what finds dropped
                     and invented words (corpus/coverage.py); optional
README.md            the model card
```
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

from mtkit import __version__
from mtkit.config import Limits, config
from mtkit.errors import DamagedError, DataError, FormatError, MissingInputError, RecipeError, UsageError
from mtkit.hardware import require_thread_memory
from mtkit.inference.packed_model import transformer_weights
from mtkit.inference.support import unsupported_model_key
from mtkit.io.files import atomic_folder, hash_file, require_utf8_name, translate_read_errors, write_bytes, write_text
from mtkit.io.finite import check_finite
from mtkit.io.safetensors_file import Arrays, unmap
from mtkit.model_folder.adapter_folder import read_adapter
from mtkit.model_folder.config_file import (
    CONFIG,
    EXPORTED,
    LEXICON,
    MODEL_CARD,
    REMEDY,
    TRAIN_AGAIN,
    WEIGHTS,
    read_config,
    update_fields,
    verified,
    write_config,
)
from mtkit.model_folder.weights_file import Storage, StoredWeights, TensorType, quantise_tensors, read_weights
from mtkit.models.config import ModelConfig
from mtkit.recipe import schema
from mtkit.recipe.located import with_location
from mtkit.recipe.paths import to_plain
from mtkit.search.config import SearchConfig
from mtkit.text.config import TokenizerConfig, stored_tokenizer
from mtkit.text.source_prefix import SourcePrefix
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair, model_names

if TYPE_CHECKING:
    from torch import Tensor

    from mtkit.models.interface import TranslationModel
    from mtkit.text.subword.import_tokenizer import ImportedTokenizer


MULTI_SENTENCE_SHARE = 0.1  # of the training sources, see ModelMetadata.is_of_single_sentences


@config
class ModelMetadata:
    """Content of config.json, except format, version, hashes and `training`.

    Attributes:
        max_source_length: tokens of the longest training source; longer sources are out of domain.
        multi_sentence_share: share of the training sources that have several sentences; None: unknown.
        length_ratio: target tokens for each source token of the training text; None: unknown.
        search: default search configuration.
        tags: names of the tags that a source may begin with, in the order of their numbers.
        languages: codes of those whose texts begin with a token of theirs, on both sides; empty: no text does.
        forms: typographic characters of the training sources that are read as they are, see text/normalise.py; null:
            unknown.
        requires_tag: every training source began with a tag, so that a source without one is out of domain.
        is_language_model: the model was trained without sources, and generates or scores text.
        is_encoder_only: only the encoder was trained, on masked text; the decoder has its initial weights.
        storage: number format of the large matrices in the file of weights, see weights_file.py.
        base_model: name of the model of another program that the weights come from.
        licence: identifier of its licence, as its card states it.
    """

    src_lang: str
    tgt_lang: str
    max_source_length: Annotated[int, Limits(gt=0)]
    tokenizer: TokenizerConfig
    model: ModelConfig
    search: SearchConfig
    tags: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    forms: str | None = None
    requires_tag: bool = False
    is_language_model: bool = False
    is_encoder_only: bool = False
    storage: Storage = "float32"
    base_model: str | None = None
    licence: str | None = None
    multi_sentence_share: Annotated[float, Limits(ge=0, le=1)] | None = None
    length_ratio: Annotated[float, Limits(gt=0)] | None = None

    def direction(self, prefix: SourcePrefix) -> tuple[str, str]:
        """Languages of the sources and of the translations: those that a prefix states, else the model's own.

        Raises:
            UsageError: the model does not have a language.
        """
        own = {"--src-lang": self.src_lang, "--tgt-lang": self.tgt_lang}
        stated = {"--src-lang": prefix.src_lang, "--tgt-lang": prefix.tgt_lang}
        for option, lang in stated.items():
            if lang is not None and lang not in (self.languages or [own[option]]):
                has = f"translates {'from' if option == '--src-lang' else 'to'} {own[option]} alone"
                if self.languages:
                    has = f"has the languages {', '.join(sorted(self.languages))}"
                elif lang in self.tags:
                    has = f"chooses the language by a tag: --tag {lang}"
                raise UsageError(f"{option} {lang}: the model {has}")
        return stated["--src-lang"] or self.src_lang, stated["--tgt-lang"] or self.tgt_lang

    @property
    def is_of_single_sentences(self) -> bool:
        """True if the model has read too few lines of several sentences to translate more than the first of them.

        Also if the share is unknown, as in imported models: a model that can translate several sentences loses little
        when it gets them one by one, and one that cannot loses all but the first. MULTI_SENTENCE_SHARE lies between the
        corpora of sentences (at most 0.036) and those of paragraphs and talks (at least 0.14); docs/translation.md.
        """
        return self.multi_sentence_share is None or self.multi_sentence_share < MULTI_SENTENCE_SHARE


@dataclass(frozen=True)
class StoredModel:
    """A model as it was read from a folder: data, from which either backend of translation is built.

    Attributes:
        weights: by name, memory-mapped.
        adapter: folder of an adapter that is merged into the weights.
    """

    folder: Path
    metadata: ModelMetadata
    tokenizers: TokenizerPair
    weights: Arrays
    adapter: Path | None = None

    def with_adapter(self, folder: Path) -> StoredModel:
        """The model with an adapter merged into its weights; those that the adapter does not change are shared.

        Raises:
            MissingInputError, DataError: the adapter cannot be read, or belongs to another model.
        """
        adapter = read_adapter(folder)
        adapter.check_base(hash_file(self.folder / WEIGHTS))
        return replace(self, weights=adapter.applied(self.weights), adapter=folder)

    def release_pages(self) -> None:
        """Give memory of the weights back to the system, which reads them again where they are used.

        They must not have been changed.
        """
        if isinstance(self.weights, StoredWeights):
            unmap(self.weights.stored)

    def load(self) -> LoadedModel:
        """The model of the reference implementation; imports torch."""
        model = with_weights(self.metadata.model, self.tokenizers.vocab_sizes, self.weights)
        return LoadedModel(self.folder, self.metadata, self.tokenizers, model.eval())


@dataclass(frozen=True)
class LoadedModel:
    """A model of the reference implementation, in eval mode."""

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
    training: str | None = None,
) -> None:
    """Write a model folder; an existing one is replaced when the new one is complete.

    Args:
        tensors: the weights, with the names of `training.weights.weights`; stored as `metadata.storage` says. Those
            that are stored so already stay.
        lexicon: file of the lexicon, which is copied; None: the model has none.
        training: hash of the keys of the recipe that determine the weights.

    Raises:
        ReadWriteError: the folder cannot be written.
        UsageError: its path is not UTF-8.
    """
    require_utf8_name(folder.resolve())
    from mtkit.training.checkpoints.tensor_file import write_tensors

    with atomic_folder(folder) as temporary:
        hashes = {WEIGHTS: write_tensors(temporary / WEIGHTS, quantise_tensors(tensors, metadata.storage))}
        if lexicon is not None:
            with translate_read_errors(lexicon):
                write_bytes(temporary / LEXICON, lexicon.read_bytes())
        write_text(temporary / MODEL_CARD, card)
        write_metadata(temporary / CONFIG, metadata, tokenizers, hashes, training=training)


def write_metadata(
    path: Path,
    metadata: ModelMetadata,
    tokenizers: TokenizerPair,
    hashes: Mapping[str, str] = MappingProxyType({}),
    *,
    training: str | None = None,
) -> None:
    """Write the sentencepiece models into a folder that has all other files of a model, and then the metadata file.

    Args:
        hashes: as for `write_config`.
        training: as for `write_model`.

    Raises:
        ReadWriteError: a file cannot be written.
    """
    for name, tokenizer in zip(model_names(tokenizers.shared), (tokenizers.src, tokenizers.tgt), strict=False):
        tokenizer.save(path.parent / name)
    write_config(path, {"training": training, **to_plain(metadata)}, hashes)


def update_search_config(folder: Path, search: SearchConfig) -> None:
    """Change the default search configuration of a model.

    Raises:
        MissingInputError, DataError, ReadWriteError: as `update_fields`.
    """
    update_fields(folder, search=to_plain(search))


def find_model(path: Path) -> Path:
    """Return the model folder at a path: the path itself, or the model folder inside a run folder.

    Raises:
        MissingInputError: there is none; the message says what is missing.
        DamagedError: there are weights, but no metadata.
        UsageError: the path is the folder of an exported model or of another program's, or not UTF-8.
    """
    require_utf8_name(path)
    if (path / EXPORTED).is_file():
        raise UsageError(f"{path}: exported for another program; give the model folder that it was exported from")
    for folder in (path, path / "model"):
        if (folder / CONFIG).is_file():
            require_own_model(folder)
            return folder
    if (path / "model" / WEIGHTS).is_file():
        raise DamagedError(f"{path / 'model' / CONFIG}: no such file, but a model has one", REMEDY)
    if path.is_file():
        raise MissingInputError(f"{path}: a file; MODEL must be a model folder or the folder of a finished run")
    if not path.exists():
        raise MissingInputError(f"{path}: no such folder; MODEL must be a model folder or the folder of a finished run")
    if (path / "recipe.yaml").is_file():
        raise MissingInputError(
            f"{path}: this run has no model yet, since its training is not finished; continue with "
            f"mtkit train {shlex.quote(str(path / 'recipe.yaml'))} --run-dir {shlex.quote(str(path))}"
        )
    if path.is_dir() and any(path.glob("*.npz")):
        raise UsageError(_IMPORT.format(folder=path, quoted=shlex.quote(str(path))))
    raise MissingInputError(f"{path}: neither a model folder nor a run folder; it has no {CONFIG}")


_IMPORT = "{folder}: a model of another program; import it first: mtkit import {quoted} -o DIR, and give DIR"


def require_own_model(folder: Path) -> None:
    """Refuse a folder whose config.json is of another program, such as transformers.

    Raises:
        UsageError: it is.
    """
    try:
        fields = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError):  # reported where the model is read
        return
    if isinstance(fields, dict) and not fields.keys() & {"mtkit", "format", "crc32"} and fields.keys() & _OF_OTHERS:
        raise UsageError(_IMPORT.format(folder=folder, quoted=shlex.quote(str(folder))))


# keys of config.json of transformers and CTranslate2
_OF_OTHERS = {"model_type", "architectures", "transformers_version", "decoder_start_token", "add_source_eos"}


def read_metadata(folder: Path) -> ModelMetadata:
    """Read config.json of a model folder.

    Raises:
        MissingInputError: it does not exist.
        FormatError: another version of mtkit wrote it in a format, or with keys, that this one does not read.
        DataError: it is damaged.
    """
    path = folder / CONFIG
    fields = read_config(path)
    writer = str(fields["mtkit"])
    for key in ("format", "mtkit", "files", "training"):
        del fields[key]
    if isinstance(fields.get("tokenizer"), dict):
        fields["tokenizer"] = stored_tokenizer(fields["tokenizer"])
    try:
        metadata: ModelMetadata = schema.build(ModelMetadata, with_location(fields, str(path), folder))
    except RecipeError as error:
        if writer == __version__:
            raise DataError(str(error)) from error
        reason = f"with keys that mtkit {__version__} does not read ({str(error).partition(chr(10))[0]})"
        raise FormatError(path, writer, reason, TRAIN_AGAIN) from error
    return metadata


def read_tokenizers(folder: Path, metadata: ModelMetadata) -> TokenizerPair:
    """Read the sentencepiece models of a model folder.

    Raises:
        MissingInputError, DataError: as `Tokenizer.load`.
    """
    config = metadata.tokenizer
    sides = [Tokenizer.load(folder / name, form=config.form) for name in model_names(config.shared)]
    return TokenizerPair(
        src=sides[0],
        tgt=sides[-1],
        config=config,
        tags=tuple(metadata.tags),
        forms=metadata.forms,
        languages=tuple(metadata.languages),
        direction=(metadata.src_lang, metadata.tgt_lang),
    )


def read_stored_model(path: Path, *, releases_pages: bool = False) -> StoredModel:
    """Read the model of a model folder or of a finished run; its weights are memory-mapped.

    torch is imported only if the native backend does not support the model. With `releases_pages` one weight at a time
    is in memory while all are checked.

    Raises:
        MissingInputError: there is no model, or one of its files is missing.
        DataError: a file is damaged or does not match the others, a weight is NaN or infinite, or another version of
            mtkit wrote it (FormatError).
    """
    folder = find_model(path)
    require_thread_memory()
    with verified(folder):
        metadata = read_metadata(folder)
        tokenizers = read_tokenizers(folder, metadata)
        types: Callable[[], Mapping[str, TensorType]] = partial(weight_types, metadata.model, tokenizers.vocab_sizes)
        if unsupported_model_key(metadata.model) is None:  # the native backend's description needs no torch
            types = partial(transformer_weights, metadata.model, *tokenizers.vocab_sizes)
        weights = read_weights(folder / WEIGHTS, types, remedy=REMEDY)
    for name, array in weights.stored.items():
        check_finite({name: array}, folder / WEIGHTS)
        if releases_pages:
            unmap(weights.stored)
    return StoredModel(folder, metadata, tokenizers, weights)


def read_model(path: Path) -> LoadedModel:
    """Read the reference model of a model folder or of a finished run. Errors as `read_stored_model`."""
    return read_stored_model(path).load()


def weight_types(config: ModelConfig, vocab_sizes: tuple[int, int]) -> Mapping[str, TensorType]:
    """Type and shape of each weight of the model that a configuration builds; it is built without memory."""
    from mtkit.models.skip_init import build_on_meta
    from mtkit.training.checkpoints.tensor_file import DTYPES
    from mtkit.training.weights import weights

    tensors = weights(build_on_meta(partial(config.build, *vocab_sizes)))
    return {name: (DTYPES[tensor.dtype], tuple(tensor.shape)) for name, tensor in tensors.items()}


def with_weights(config: ModelConfig, vocab_sizes: tuple[int, int], arrays: Arrays) -> TranslationModel:
    """The model that a configuration builds, which uses the memory of weights with its names, shapes and types."""
    import torch

    from mtkit.models.skip_init import SkipInit

    with SkipInit(torch.device("cpu")):
        model = config.build(*vocab_sizes)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, array in arrays.items():
        tensor = tensors[name]
        tensor.data = torch.from_numpy(array)  # tied weights are one Parameter: all uses change
    return model


def find_tokenizer(path: Path, side: Literal["src", "tgt"]) -> ImportedTokenizer:
    """Read the tokenizer of one side from a model file, a model folder or a run folder.

    Args:
        path: a subword model as `import_tokenizer` reads it; a model folder; or a run folder, whose training need not
            be finished.
        side: source or target; without effect if both have the same tokenizer.

    Raises:
        MissingInputError, DataError, ReadWriteError: as `import_tokenizer`, `TokenizerPair.load` and `read_metadata`.
    """
    from mtkit.text.subword.import_tokenizer import ImportedTokenizer, import_tokenizer

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
