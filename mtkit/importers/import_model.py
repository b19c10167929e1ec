"""Import of a model of another program: a folder as Hugging Face or Marian writes it -> model folder."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mtkit.display import printable
from mtkit.errors import DataError, MissingInputError, RecipeError, UsageError
from mtkit.importers.architecture import ForeignArchitecture, WeightNames
from mtkit.importers.bart import M2M100, MARIAN_MODELS, Bart, Blenderbot, Marian, MBart, Pegasus
from mtkit.importers.foreign_folder import (
    GENERATION,
    TOKENIZER_SETTINGS,
    Fields,
    ForeignFolder,
    download,
    foreign_kind,
    is_hub_name,
    shown,
)
from mtkit.importers.generation import never_generated, renormalises, search_config
from mtkit.importers.marian_npz import MarianFolder
from mtkit.importers.t5 import MT5, T5
from mtkit.importers.vocabulary import ForeignTokenizers, LanguagePair
from mtkit.inference.packing import as_float32
from mtkit.io.finite import check_finite
from mtkit.io.lock import OutputLock
from mtkit.model_folder.config_file import CONFIG, require_replaceable
from mtkit.model_folder.folder import ModelMetadata, weight_types, write_model
from mtkit.model_folder.model_card import licence_note, model_card
from mtkit.model_folder.weights_file import Storage, TensorType, quantise_tensors
from mtkit.models.embeddings import VOCAB_TENSORS
from mtkit.recipe import schema
from mtkit.recipe.located import with_location
from mtkit.recipe.paths import to_plain

# architectures of other programs, by the `model_type` of their config.json
ARCHITECTURES: dict[str, ForeignArchitecture[Any]] = {
    each.name: each for each in (Marian(), Pegasus(), M2M100(), MBart(), Blenderbot(), Bart(), T5(), MT5())
}

# Logit of tokens that the model lacks: their probability is 0 in float32, and label smoothing, which spreads a little
# over all tokens, still has a loss that can be read when the model is trained further.
UNKNOWN_LOGIT = -100.0
_PAIR = re.compile(r"(?:^|[-_])([a-z]{2,3})-([a-z]{2,3})$")
_OUTPUT_BIAS = "output.bias"
Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Languages:
    """Codes of the languages of a model; None: they are found in its files or its name."""

    src: str | None = None
    tgt: str | None = None


def import_model(source: Path, output: Path, languages: Languages, storage: Storage = "float32") -> list[str]:
    """Write a model folder with the model of another program; an existing model folder is replaced.

    The weights are converted one by one: the memory is that of the stored ones, and of one in float32.

    Args:
        source: folder with the files of Hugging Face or the .npz of Marian, or ORGANISATION/NAME of the hub.
        output: folder to write.
        storage: number format of the large matrices.

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
    folder, fields, architecture = _open(source)
    try:
        config = architecture.config(fields)
    except ValueError as error:
        raise DataError(f"{fields.path}: {error}") from error
    src_lang, tgt_lang = _languages(folder, name, languages)
    direction = LanguagePair(src_lang, tgt_lang)
    is_marian = folder.has(MARIAN_MODELS[0])  # as mtkit exports models whose own tokenizer cannot segment as theirs
    tokenizers = (Marian() if is_marian else architecture).tokenizers(folder, fields, direction)
    generation = folder.optional_table(GENERATION)
    weight_names = list(architecture.weights(config))
    tgt, has_output_bias = tokenizers.pair.tgt, any(each.ours == _OUTPUT_BIAS for each in weight_names)
    positions = fields.get("max_position_embeddings", int, 1024)
    longest = min(positions, folder.optional_table(TOKENIZER_SETTINGS).get("model_max_length", (int, float), positions))
    usage = list(architecture.notes(fields, direction))
    # the last to read config.json: it names the keys that nothing has read
    search, left_out = search_config(fields, generation, tgt, has_output_bias=has_output_bias)
    notes = [*left_out, *usage, *folder.left_out()]
    licence = folder.card().get("license")
    metadata = ModelMetadata(
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        max_source_length=max(1, int(longest) - 1),
        tokenizer=tokenizers.pair.config,
        model=config,
        search=search,
        tags=list(tokenizers.pair.tags),
        languages=list(tokenizers.pair.languages),
        requires_tag=bool(tokenizers.pair.tags),
        storage=storage,
        base_model=printable(name, 200),
        licence=printable(licence, 100) if isinstance(licence, str) else None,
    )
    plain = with_location(to_plain(metadata), f"{folder.path} as a model of mtkit", folder.path)
    try:
        schema.build(ModelMetadata, plain)  # checks the ranges of numbers
    except RecipeError as error:
        raise DataError(str(error).partition("\n")[0]) from error
    types = weight_types(config, tokenizers.pair.vocab_sizes)
    count = sum(math.prod(shape) for _, shape in types.values())
    never = never_generated(fields, generation) if renormalises(fields, generation) else set()

    tensors: dict[str, torch.Tensor] = {}
    for weight, array in _converted(architecture, weight_names, types, tokenizers, folder):
        if weight == _OUTPUT_BIAS:
            array[sorted(never & set(range(tgt.vocab.size)))] = UNKNOWN_LOGIT
        check_finite({weight: array}, source)
        tensors |= quantise_tensors({weight: torch.from_numpy(array)}, storage)
    with OutputLock(output, make_parents=True):
        write_model(output, tensors, metadata, tokenizers.pair, card=model_card(metadata, {}, num_parameters=count))
    tags = f"tags {', '.join(metadata.tags[:5])}" if metadata.tags else "no tags"
    more = f" and {len(metadata.tags) - 5} more" if len(metadata.tags) > 5 else ""
    summary = f"{source}: {architecture.name}, {src_lang} to {tgt_lang}, {count:,} parameters, {tags}{more}"
    return [summary, licence_note(metadata), *notes]


def _open(source: Path) -> tuple[ForeignFolder, Fields, ForeignArchitecture[Any]]:
    """The folder, its config.json and its architecture; errors as `import_model`."""
    is_marian = source.is_dir() and not (source / CONFIG).exists() and any(source.glob("*.npz"))
    folder = MarianFolder(source) if is_marian else ForeignFolder(source)
    if not is_marian and not (source / CONFIG).is_file() and (other := foreign_kind(source)):
        raise DataError(f"{source}: {other}")
    if not source.is_dir():
        raise MissingInputError(f"{source}: no such folder; give the folder of a model, with its {CONFIG} and weights")
    fields = folder.table(CONFIG)
    if "mtkit" in fields.values:
        raise UsageError(f"{source}: is a model folder of mtkit; use it as it is")
    kind = fields.values.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        known = "; ".join(f"{each.name} ({each.description})" for each in ARCHITECTURES.values())
        other = foreign_kind(source) if kind is None else None
        raise DataError(f"{fields.path}: {other or f'model_type: {shown(kind)}; mtkit imports {known}'}")
    if quantised := fields.get("quantization_config", dict, {}):
        method = shown(quantised.get("quant_method", "quantised"))
        raise DataError(
            f"{fields.path}: quantization_config: the weights are {method}; import the model that was quantised, or "
            "load it by the package transformers, .dequantize() and save_pretrained"
        )
    return folder, fields, ARCHITECTURES[kind]


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


def _converted(
    architecture: ForeignArchitecture[Any],
    weight_names: Sequence[WeightNames],
    types: Mapping[str, TensorType],
    tokenizers: ForeignTokenizers,
    folder: ForeignFolder,
) -> Iterator[tuple[str, Float32]]:
    """The weights by mtkit's names, one by one, with rows for its special tokens.

    Raises:
        DataError: a tensor is missing, unknown or of another shape.
    """
    theirs = folder.weights()
    shapes = {name: shape for name, (_, shape) in types.items()}
    if wrong := shapes.keys() ^ {each.ours for each in weight_names}:
        raise ValueError(f"{architecture.name}: no names of weights, or names of none: {', '.join(sorted(wrong))}")
    known = {*architecture.unused_weights, *(name for each in weight_names for name in (*each.theirs, *each.instead))}
    # the first of a tensor and those tied to it that is there; the tensor itself if none is
    used = {
        each.ours: [next((one for one in (name, *each.instead) if one in theirs), name) for name in each.theirs]
        for each in weight_names
    }
    remaining_uses = Counter(name for names in used.values() for name in names)
    sizes = dict(zip(("src", "tgt"), tokenizers.sizes, strict=True))
    if unused := sorted(theirs.keys() - known):
        raise DataError(
            f"{folder.path}: {unused[0]} (and {len(unused) - 1} more): no weight of {architecture.name} as {CONFIG} "
            "describes it; it is another model, or one that mtkit does not import"
        )
    for names in weight_names:
        rows, *columns = shapes[names.ours]
        is_of_tokens = names.ours in VOCAB_TENSORS
        shape = (sizes[VOCAB_TENSORS[names.ours]] if is_of_tokens else rows, *columns)
        sources = [name for name in used[names.ours] if name in theirs or not names.is_optional]
        if missing := [name for name in sources if name not in theirs]:
            raise DataError(
                f"{folder.path}: the weights have no {missing[0]}; they are cut off, or of another model than {CONFIG}"
            )
        parts = [as_float32(theirs[name]) for name in sources]
        array = _concatenated(parts) if parts else np.zeros(shape, dtype=np.float32)
        for name in sources:
            remaining_uses[name] -= 1
            if not remaining_uses[name]:  # so that the weights are never in memory twice
                del theirs[name]
        array = array.reshape(-1) if names.ours == _OUTPUT_BIAS else array[names.skipped :]
        if array.shape != shape:
            if names.ours == _OUTPUT_BIAS:
                raise DataError(
                    f"{folder.path}: {sources[0]} has {array.size:,} numbers, and there are {shape[0]:,} tokens"
                )
            raise DataError(
                f"{folder.path}: {' + '.join(names.theirs)} is {list(array.shape)}, but {list(shape)} by {CONFIG} and "
                "vocabulary; they are of different models"
            )
        if rows > len(array):  # those of mtkit's special tokens
            fill = UNKNOWN_LOGIT if names.ours == _OUTPUT_BIAS else 0.0
            array = np.concatenate([array, np.full((rows - len(array), *columns), fill, dtype=np.float32)])
        yield names.ours, array


def _concatenated(parts: list[Float32]) -> Float32:
    """Tensors one after another; if their shapes differ, a vector, whose shape the caller refuses with their names."""
    if len({part.shape[1:] for part in parts}) > 1 or parts[0].ndim == 0:
        return parts[0].reshape(-1)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
