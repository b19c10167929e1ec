"""Compression of a model folder, with a bound on the loss of BLEU."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from mtkit.compression.heads import choose_heads, head_importance, prune_heads
from mtkit.compression.measure import HeldOutText, ModelFigures, measure, table_lines
from mtkit.compression.structure import drop_layers, prune_feed_forward
from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.collate import collate
from mtkit.errors import DataError, UsageError
from mtkit.inference.prepare import ComputeType
from mtkit.io.lock import OutputLock
from mtkit.model_folder.config_file import CONFIG, LEXICON
from mtkit.model_folder.folder import LoadedModel, ModelMetadata, read_model, write_model
from mtkit.model_folder.model_card import model_card
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.weights import weights

Target = Literal["int8", "int4", "heads", "ffn", "half-depth"]
BATCH_SENTENCES = 32  # of the computation of importances
DEFAULT_FRACTION = 0.4

Compressed = tuple[TransformerConfig, dict[str, Tensor]]


@dataclass(frozen=True, kw_only=True)
class CompressionOptions:
    """Options of a compression.

    Attributes:
        to: int8 or int4 weights on disk, or removal of heads, feed-forward units or layers.
        fraction: of the heads or units that are removed; None: DEFAULT_FRACTION.
        text: for importances, BLEU and speed; None: only the size is measured.
        max_loss: BLEU that may be lost; None: any.
        compute_type: of both models when they are measured.
    """

    to: Target
    fraction: float | None = None
    text: HeldOutText | None = None
    max_loss: float | None = None
    compute_type: ComputeType = "auto"


def compress_model(model: Path, output: Path, options: CompressionOptions) -> list[str]:
    """Write a compressed copy of a model; an existing model folder is replaced.

    Returns:
        A table of size, BLEU and speed of both models.

    Raises:
        UsageError: options contradict each other, or the model has no such parts.
        DataError: more BLEU would be lost than allowed; nothing is written. Also as `read_model`.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    loaded = read_model(model)
    _check(loaded, output, options)
    metadata, tensors = _compressed(loaded, options)
    lang, text = metadata.tgt_lang, options.text
    with OutputLock(output, make_parents=True), tempfile.TemporaryDirectory(dir=output.parent) as folder:
        trial = Path(folder) / "model"
        write = _writer(loaded, metadata, tensors)
        write(trial)
        counts = _count(weights(loaded.model)), _count(tensors)
        before, after = measure([loaded.folder, trial], counts, text, tgt_lang=lang, compute_type=options.compute_type)
        table = table_lines([(str(model), before), (f"{output} ({options.to})", after)])
        _require_quality(before, after, options, table)
        write(output)
    return table


def _check(loaded: LoadedModel, output: Path, options: CompressionOptions) -> None:
    if output.exists() and not (output / CONFIG).is_file():
        raise UsageError(f"{output}: exists and is not a model folder; choose another name")
    if output.resolve() == loaded.folder.resolve():
        raise UsageError(f"{output}: is the model itself; choose another name")
    if options.fraction is not None and options.to not in ("heads", "ffn"):
        raise UsageError(f"--fraction has no effect with --to {options.to}; omit it")
    if options.max_loss is not None and options.text is None:
        raise UsageError("--max-loss compares the BLEU of both models; give --src and --ref")
    if options.to == "heads" and options.text is None:
        raise UsageError("--to heads computes the importance of heads from text; give --src and --ref")
    if loaded.metadata.storage != "float32" and options.to not in ("int8", "int4"):
        raise UsageError(f"{loaded.folder}: stored in {loaded.metadata.storage}; prune the model before quantising it")


def _compressed(loaded: LoadedModel, options: CompressionOptions) -> tuple[ModelMetadata, dict[str, Tensor]]:
    """Metadata and weights of the compressed model."""
    tensors = weights(loaded.model)
    if options.to in ("int8", "int4"):
        return replace(loaded.metadata, storage=options.to), tensors
    fraction = DEFAULT_FRACTION if options.fraction is None else options.fraction
    config = loaded.metadata.model
    if not isinstance(config, TransformerConfig):
        raise UsageError(f"--to {options.to}: the model is of kind {config.kind}; only transformer has these parts")
    if options.to == "half-depth":
        config, tensors = drop_layers(config, tensors)
    elif options.to == "ffn":
        config, tensors = prune_feed_forward(config, tensors, fraction)
    else:
        config, tensors = _without_heads(loaded, config, tensors, options.text, fraction)
    return replace(loaded.metadata, model=config), tensors


def _without_heads(
    loaded: LoadedModel,
    config: TransformerConfig,
    tensors: Mapping[str, Tensor],
    text: HeldOutText | None,
    fraction: float,
) -> Compressed:
    if text is None:
        raise ValueError("importances need text")
    try:  # the check of the keys, before the work
        replace(config, encoder_heads=[config.num_heads] * config.encoder_layers)
        replace(config, decoder_heads=[config.num_heads] * config.decoder_layers)
    except ValueError as error:
        raise UsageError(f"--to heads: model.{error}") from error
    importance = head_importance(loaded.model, _batches(loaded, text))
    return prune_heads(config, tensors, choose_heads(importance, fraction))


def _batches(loaded: LoadedModel, text: HeldOutText) -> Iterator[Batch]:
    tokenizers = loaded.tokenizers
    prefix = text.prefix.ids(tokenizers)
    src = [[*prefix, *ids] for ids in tokenizers.src.encode(text.src)]
    tgt = tokenizers.tgt.encode(text.ref)
    order = sorted(range(len(src)), key=lambda index: len(src[index]))
    for start in range(0, len(order), BATCH_SENTENCES):
        rows = order[start : start + BATCH_SENTENCES]
        sides = [src[row] for row in rows], [tgt[row] for row in rows]
        yield collate(*sides, rows, tokenizers.src.vocab, tokenizers.tgt.vocab)


def _writer(loaded: LoadedModel, metadata: ModelMetadata, tensors: Mapping[str, Tensor]) -> Callable[[Path], None]:
    lexicon = loaded.folder / LEXICON
    report: dict[str, Any] = {}
    card = model_card(metadata, report, num_parameters=_count(tensors))

    def write(folder: Path) -> None:
        write_model(
            folder, tensors, metadata, loaded.tokenizers, card=card, lexicon=lexicon if lexicon.is_file() else None
        )

    return write


def _count(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors.values())


def _require_quality(before: ModelFigures, after: ModelFigures, options: CompressionOptions, table: list[str]) -> None:
    if options.max_loss is None or before.bleu is None or after.bleu is None:
        return
    if before.bleu - after.bleu > options.max_loss:
        raise DataError(
            f"BLEU {after.bleu:.2f} is {before.bleu - after.bleu:.2f} below that of the model, and --max-loss is "
            f"{options.max_loss}; nothing was written. Compress less, train the result further, or raise --max-loss\n"
            + "\n".join(table)
        )
