"""Import of a model of another program: folder in the layout of Hugging Face -> model folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.display import printable
from mtkit.errors import DataError, MissingInputError, RecipeError, UsageError
from mtkit.importers.architectures.architecture import ForeignArchitecture
from mtkit.importers.architectures.bart_layers import OUTPUT_BIAS
from mtkit.importers.architectures.registry import find_architecture
from mtkit.importers.foreign_folder import GENERATION, ForeignFolder
from mtkit.importers.generation import never_generated, renormalises, search_config
from mtkit.importers.hub import download, is_hub_name
from mtkit.importers.marian_npz import MarianFolder, is_marian_folder
from mtkit.importers.vocabulary import TOKENIZER_SETTINGS, ForeignTokenizers, LanguagePair
from mtkit.inference.packed_model import transformer_weights
from mtkit.io.lock import OutputLock
from mtkit.model_folder.config_file import CONFIG, require_replaceable
from mtkit.model_folder.folder import ModelMetadata, write_model
from mtkit.model_folder.model_card import licence_note, model_card
from mtkit.model_folder.weights_file import check_finite
from mtkit.models.transformer.config import TransformerConfig
from mtkit.recipe import schema
from mtkit.recipe.located import with_location
from mtkit.recipe.paths import to_plain

# Logit of tokens that the model lacks: their probability is 0 in float32, and label smoothing, which spreads a little
# over all tokens, still has a loss that can be read when the model is trained further.
UNKNOWN_LOGIT = -100.0
_PAIR = re.compile(r"(?:^|[-_])([a-z]{2,3})-([a-z]{2,3})$")
_VOCABULARIES = ("src_embedding.table.weight", "tgt_embedding.table.weight", "output.weight")
Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Languages:
    """Codes of the languages of a model; None: they are found in its files or its name."""

    src: str | None = None
    tgt: str | None = None


def import_model(source: Path, output: Path, languages: Languages) -> list[str]:
    """Write a model folder with the model of another program; an existing model folder is replaced.

    Args:
        source: folder in the layout of Hugging Face, or ORGANISATION/NAME of the hub.
        output: folder to write.

    Returns:
        Sentences about what was imported, and about what was left out.

    Raises:
        MissingInputError: the folder or one of its files does not exist.
        DataError: a file is damaged or of another model, or mtkit does not compute what the model computes; nothing is
            written.
        UsageError: the languages are unknown, or the output is another folder that would be replaced.
        ReadWriteError: a file cannot be read or written.
    """
    require_replaceable(output)
    name = str(source) if is_hub_name(source) else source.resolve().name
    source = download(name) if is_hub_name(source) else source
    folder = MarianFolder(source) if is_marian_folder(source) else ForeignFolder(source)
    if not source.is_dir():
        raise MissingInputError(f"{source}: no such folder; give the folder of a model, with its {CONFIG} and weights")
    fields = folder.table(CONFIG)
    if "mtkit" in fields.values:
        raise UsageError(f"{source}: is a model folder of mtkit; use it as it is")
    architecture = find_architecture(fields)
    try:
        config = architecture.config(fields)
    except ValueError as error:
        raise DataError(f"{fields.path}: {error}") from error
    src_lang, tgt_lang = _languages(folder, name, languages)
    tokenizers = architecture.tokenizers(folder, fields, LanguagePair(src_lang, tgt_lang))
    generation = folder.optional_table(GENERATION)
    tgt, has_output_bias = tokenizers.pair.tgt, config.output_bias
    search, notes = search_config(fields, generation, tgt, has_output_bias=has_output_bias)
    licence = folder.card().get("license")
    metadata = ModelMetadata(
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        max_source_length=max(1, int(fields.get("max_position_embeddings", int, 1024)) - 1),
        tokenizer=tokenizers.pair.config,
        model=config,
        search=search,
        tags=list(tokenizers.pair.tags),
        requires_tag=bool(tokenizers.pair.tags),
        base_model=printable(name, 200),
        licence=printable(licence, 100) if isinstance(licence, str) else None,
    )
    _check_ranges(metadata, folder)
    weights = _convert(architecture, config, tokenizers, folder)
    if has_output_bias and renormalises(fields, generation):
        weights["output.bias"][sorted(never_generated(fields, generation) & set(range(tgt.vocab.size)))] = UNKNOWN_LOGIT
    check_finite(weights, source)
    count = sum(array.size for array in weights.values())
    with OutputLock(output, make_parents=True):
        _write(output, weights, metadata, tokenizers, card=model_card(metadata, {}, num_parameters=count))
    summary = f"{source}: {architecture.name}, {src_lang} to {tgt_lang}, {count:,} parameters, {_tags(metadata)}"
    return [summary, licence_note(metadata), *notes]


def _check_ranges(metadata: ModelMetadata, folder: ForeignFolder) -> None:
    """Raise DataError if a number is outside the range of its key."""
    try:
        schema.build(
            ModelMetadata, with_location(to_plain(metadata), f"{folder.path} as a model of mtkit", folder.path)
        )
    except RecipeError as error:
        raise DataError(str(error).partition("\n")[0]) from error


def _write(
    output: Path, weights: dict[str, Float32], metadata: ModelMetadata, tokenizers: ForeignTokenizers, *, card: str
) -> None:
    import torch

    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    write_model(output, tensors, metadata, tokenizers.pair, card=card)


def _tags(metadata: ModelMetadata) -> str:
    if not metadata.tags:
        return "no tags"
    shown = ", ".join(metadata.tags[:5])
    return f"tags {shown}" + (f" and {len(metadata.tags) - 5} more" if len(metadata.tags) > 5 else "")


def _languages(folder: ForeignFolder, name: str, languages: Languages) -> tuple[str, str]:
    """The languages that are given, or those in the tokenizer's settings, or in the name of the folder."""
    settings = folder.optional_table(TOKENIZER_SETTINGS)
    match = _PAIR.search(name.lower())
    src = languages.src or settings.get("source_lang", str) or settings.get("src_lang", str) or (match and match[1])
    tgt = languages.tgt or settings.get("target_lang", str) or settings.get("tgt_lang", str) or (match and match[2])
    if not src or not tgt:
        raise UsageError(
            f"{folder.path}: its files do not name the languages; give them with --src-lang and --tgt-lang"
        )
    return src, tgt


def _convert(
    architecture: ForeignArchitecture, config: TransformerConfig, tokenizers: ForeignTokenizers, folder: ForeignFolder
) -> dict[str, Float32]:
    """The weights by mtkit's names, with rows for its special tokens.

    Raises:
        DataError: a tensor is missing, unknown or of another shape.
    """
    theirs = folder.weights()
    expected = {name: shape for name, (_, shape) in transformer_weights(config, *tokenizers.pair.vocab_sizes).items()}
    src_size, tgt_size = tokenizers.sizes
    sizes = dict(zip(_VOCABULARIES, (src_size, tgt_size, tgt_size), strict=True))
    ours: dict[str, Float32] = {}
    for names in architecture.weights(config):
        parts = [_take(theirs, each, names.instead, folder) for each in names.theirs]
        array = _concatenated(parts)[names.skipped :]
        shape = (sizes.get(names.ours, expected[names.ours][0]), *expected[names.ours][1:])
        if array.shape != shape:
            found = f"{' + '.join(names.theirs)} is {list(array.shape)}"
            raise DataError(
                f"{folder.path}: {found}, but {list(shape)} by {CONFIG} and vocabulary; they are of different models"
            )
        ours[names.ours] = _with_rows(array, expected[names.ours][0])
    if config.output_bias:
        bias = theirs.pop(OUTPUT_BIAS, np.zeros((1, tgt_size), dtype=np.float32)).reshape(-1)
        if bias.shape != (tgt_size,):
            raise DataError(
                f"{folder.path}: {OUTPUT_BIAS} has {bias.size:,} numbers, and there are {tgt_size:,} tokens"
            )
        unknown = np.full(tokenizers.pair.tgt.vocab.size - tgt_size, UNKNOWN_LOGIT, dtype=np.float32)
        ours["output.bias"] = np.concatenate([bias, unknown])
    if unused := sorted(theirs.keys() - architecture.unused_weights(config)):
        raise DataError(
            f"{folder.path}: {unused[0]} (and {len(unused) - 1} more): no weight of {architecture.name} as {CONFIG} "
            "describes it; it is another model, or one that mtkit does not import"
        )
    return ours


def _concatenated(parts: list[Float32]) -> Float32:
    """Tensors one after another; if their shapes differ, a vector, whose shape the caller refuses with their names."""
    if len({part.shape[1:] for part in parts}) > 1 or parts[0].ndim == 0:
        return parts[0].reshape(-1)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _take(theirs: dict[str, Float32], name: str, instead: tuple[str, ...], folder: ForeignFolder) -> Float32:
    for each in (name, *instead):
        if each in theirs:
            return theirs.pop(each)
    raise DataError(f"{folder.path}: the weights have no {name}; they are cut off, or of another model than {CONFIG}")


def _with_rows(array: Float32, count: int) -> Float32:
    """An array with rows of 0 up to a number of rows."""
    if len(array) == count:
        return array
    return np.concatenate([array, np.zeros((count - len(array), *array.shape[1:]), dtype=np.float32)])
