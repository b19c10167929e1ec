"""Compression of a model folder, with a bound on the loss of BLEU; size, speed and BLEU of both models."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from torch import Tensor

from mtkit.analysis.head_statistics import head_importance
from mtkit.compression import Target as Target  # for claims of evidence/
from mtkit.compression.pruning import (
    choose_heads,
    choose_open_heads,
    drop_layers,
    fold_gates,
    prune_feed_forward,
    prune_heads,
    prune_weights,
)
from mtkit.compression.vocabulary import NO_CUT, VocabularyCut, cut_vocabulary
from mtkit.display import Table
from mtkit.errors import DataError, UsageError
from mtkit.evaluation.score import bleu_of
from mtkit.evaluation.tokenizer_choice import choose_tokenizer
from mtkit.inference.support import ComputeType
from mtkit.io.files import replace_folder, temporary_folder
from mtkit.io.lock import OutputLock
from mtkit.model_folder.config_file import WEIGHTS, require_replaceable
from mtkit.model_folder.folder import LoadedModel, ModelMetadata, read_model
from mtkit.model_folder.model_card import write_changed_copy
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.weights import weights
from mtkit.translate.load import load_translator
from mtkit.translate.reference_text import ReferenceText, batches, prefix_ids

NUMBER_FORMATS: Final = ("bf16", "int8", "int4")
DEFAULT_FRACTION = 0.4
WARM_UP_LINES = 16
NUM_TURNS = 3  # the fastest counts: other programs can only slow a translation down
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class CompressionOptions:
    """Options of a compression.

    Attributes:
        to: bf16, int8 or int4 weights on disk, or removal of single weights, heads, feed-forward units, layers or
            tokens.
        fraction: of the weights, heads or units that are removed; None: the heads with closed gates of a model with
            gates, else DEFAULT_FRACTION.
        text: for importances, BLEU and speed; None: only the size is measured.
        most_important: remove the most important heads instead of the least, to see what a model loses with them.
        encoder_layers: number that half-depth keeps; None: half of them, rounded up.
        max_loss: BLEU that may be lost; None: any.
        compute_type: of both models when they are measured.
        vocabulary: texts and languages whose tokens `to` vocabulary keeps.
    """

    to: Target
    fraction: float | None = None
    text: ReferenceText | None = None
    most_important: bool = False
    encoder_layers: int | None = None
    decoder_layers: int | None = None
    max_loss: float | None = None
    compute_type: ComputeType = "auto"
    vocabulary: VocabularyCut = NO_CUT


def compress_model(model: Path, output: Path, options: CompressionOptions) -> Table:
    """Write a compressed copy of a model; an existing model folder is replaced.

    Returns:
        A table of size, BLEU and speed of both models.

    Raises:
        UsageError: options contradict each other, or the model has no such parts.
        DataError: more BLEU would be lost than allowed; nothing is written. Also as `read_model`, of both models.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    loaded = read_model(model)
    _check(loaded, output, options)
    tokenizers = loaded.tokenizers
    if options.to == "vocabulary":
        metadata, tensors, tokenizers = cut_vocabulary(loaded, options.vocabulary)
    else:
        metadata, tensors = _compressed(loaded, options)
    final = Path(os.path.realpath(output))
    with OutputLock(output, make_parents=True), temporary_folder(final) as folder:
        trial = folder / "model"
        write_changed_copy(trial, loaded, metadata, tensors, tokenizers)  # and read, before it replaces a model
        sparse = "sparse" in (options.to, loaded.metadata.storage)  # weights that are 0 do not count
        counts = [
            sum(int(each.count_nonzero()) if sparse else each.numel() for each in model_weights.values())
            for model_weights in (weights(loaded.model), tensors)
        ]
        before, after = _measure([loaded.folder, trial], counts, metadata, options)
        table = _size_table([(str(model), before), (f"{output} ({options.to})", after)])
        loss = 0.0 if before.bleu is None or after.bleu is None else before.bleu - after.bleu
        if options.max_loss is not None and loss > options.max_loss:
            raise DataError(
                f"BLEU {after.bleu:.2f} is {loss:.2f} below that of the model, and --max-loss is {options.max_loss}; "
                "nothing was written. Compress less, train the result further, or raise --max-loss\n"
                + "\n".join(table.lines())
            )
        replace_folder(trial, final)
    return table


def _check(loaded: LoadedModel, output: Path, options: CompressionOptions) -> None:
    require_replaceable(output)
    if output.resolve() == loaded.folder.resolve():
        raise UsageError(f"{output}: is the model itself; choose another name")
    if options.fraction is not None and options.to not in ("sparse", "heads", "ffn"):
        raise UsageError(f"--fraction has no effect with --to {options.to}; omit it")
    if options.to != "half-depth" and (options.encoder_layers, options.decoder_layers) != (None, None):
        raise UsageError(f"--encoder-layers and --decoder-layers have no effect with --to {options.to}; omit them")
    if (options.to == "vocabulary") != bool(options.vocabulary.texts):
        raise UsageError(
            "--to vocabulary keeps the tokens that texts use: give a file of each language, --text FILE --text FILE"
            if options.to == "vocabulary"
            else f"--languages and --text have no effect with --to {options.to}; omit them"
        )
    if options.max_loss is not None and not math.isfinite(options.max_loss):
        raise UsageError(f"--max-loss {options.max_loss}: not a number of BLEU points, such as 0.5")
    if options.max_loss is not None and options.text is None:
        raise UsageError("--max-loss compares the BLEU of both models; give --src and --ref")
    if options.to == "heads" and options.text is None and not _has_gates(loaded.metadata.model):
        raise UsageError("--to heads computes the importance of heads from text; give --src and --ref")
    if loaded.metadata.storage != "float32" and options.to not in NUMBER_FORMATS:
        raise UsageError(f"{loaded.folder}: stored in {loaded.metadata.storage}; prune the model before quantising it")
    if options.text is not None:
        prefix_ids(loaded, options.text.prefix)


def _compressed(loaded: LoadedModel, options: CompressionOptions) -> tuple[ModelMetadata, dict[str, Tensor]]:
    """Metadata and weights of the compressed model."""
    tensors = weights(loaded.model)
    if options.to in NUMBER_FORMATS:
        return replace(loaded.metadata, storage=options.to), tensors
    fraction = DEFAULT_FRACTION if options.fraction is None else options.fraction
    if options.to == "sparse":
        parameters = dict(loaded.model.named_parameters())
        return replace(loaded.metadata, storage="sparse"), prune_weights(tensors, fraction, parameters=parameters)
    config = loaded.metadata.model
    if not isinstance(config, TransformerConfig):
        raise UsageError(f"--to {options.to}: the model is of kind {config.kind}; only transformer has these parts")
    if options.to != "half-depth" and config.decoder_side() is not config:
        raise UsageError(f"--to {options.to}: sizes of the decoder differ (decoder_num_heads, decoder_d_ff)")
    if options.to == "half-depth":
        config, tensors = drop_layers(
            config, tensors, encoder_layers=options.encoder_layers, decoder_layers=options.decoder_layers
        )
    elif options.to == "ffn":
        config, tensors = prune_feed_forward(config, tensors, fraction)
    elif _has_gates(config):
        config, tensors = fold_gates(config, loaded.model, tensors)
        config, tensors = prune_heads(config, tensors, choose_open_heads(loaded.model, options.fraction))
    else:
        try:  # the check of the keys, before the work
            replace(config, encoder_heads=[config.num_heads] * config.encoder_layers)
            replace(config, decoder_heads=[config.num_heads] * config.decoder_layers)
        except ValueError as error:
            raise UsageError(f"--to heads: model.{error}") from error
        if options.text is None:
            raise ValueError("importances need text")
        importance = head_importance(loaded.model, batches(loaded, options.text))
        if options.most_important:
            importance = {name: -values for name, values in importance.items()}
        config, tensors = prune_heads(config, tensors, choose_heads(importance, fraction))
    return replace(loaded.metadata, model=config), tensors


def _has_gates(config: ModelConfigBase) -> bool:
    """Return whether the heads have gates that training has closed."""
    return isinstance(config, TransformerConfig) and config.head_gates is not None


@dataclass(frozen=True)
class ModelFigures:
    """Figures of a model: parameters, MiB of its file of weights, BLEU, and lines per second."""

    parameters: int
    mebibytes: float
    bleu: float | None = None
    lines_per_second: float | None = None


def _measure(
    folders: Sequence[Path], parameters: Sequence[int], metadata: ModelMetadata, options: CompressionOptions
) -> list[ModelFigures]:
    """Measure model folders; without text their sizes alone. The models take turns in translating, several times.

    Raises:
        MissingInputError, DataError, UsageError: as `load_translator` and `Translator.translate`.
    """
    sizes, text = [(folder / WEIGHTS).stat().st_size / MIB for folder in folders], options.text
    if text is None:
        return [ModelFigures(*figures) for figures in zip(parameters, sizes, strict=True)]
    translators = [
        load_translator(folder, compute_type=options.compute_type).with_source_prefix(text.prefix) for folder in folders
    ]
    for translator in translators:
        translator.translate_lines(text.src[:WARM_UP_LINES])
    seconds, hyps = [float("inf")] * len(folders), [[""]] * len(folders)
    for turn in range(NUM_TURNS * len(folders)):
        number, start = turn % len(folders), time.perf_counter()
        hyps[number] = translators[number].translate_lines(text.src)
        seconds[number] = min(seconds[number], time.perf_counter() - start)
    tokenizer = choose_tokenizer(text.ref, metadata.direction(text.prefix)[1], "auto").name
    return [
        ModelFigures(parameters[n], sizes[n], bleu_of(each, text.ref, tokenize=tokenizer), len(text.src) / seconds[n])
        for n, each in enumerate(hyps)
    ]


def _size_table(rows: Sequence[tuple[str, ModelFigures]]) -> Table:
    """One row for each model, with its share of the first one's size and speed."""
    first = rows[0][1]
    all_cells = []
    for name, row in rows:
        cells = [f"{row.parameters:,}", f"{row.mebibytes:.2f}", f"{100 * row.mebibytes / first.mebibytes:.0f} %"]
        if row.bleu is not None and row.lines_per_second is not None and first.lines_per_second is not None:
            speed = row.lines_per_second / first.lines_per_second
            cells += [f"{row.bleu:.2f}", f"{row.lines_per_second:.1f}", f"{speed:.2f}×"]
        all_cells.append([name, *cells])
    columns = ("model", "parameters", "MiB", "size", "BLEU", "lines/s", "speed")[
        : len(all_cells[0])
    ]  # without a text 4
    return Table(columns, all_cells, text=("model",))
