"""Checkpoint averaging: a model folder with the mean weights of several checkpoints or models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mtkit.errors import DataError, MissingInputError, UsageError
from mtkit.io.lock import OutputLock
from mtkit.layers.projections import merge_low_rank
from mtkit.model_folder.config_file import CONFIG, LEXICON, WEIGHTS, require_replaceable, verify_model
from mtkit.model_folder.folder import ModelMetadata, find_model, read_metadata, read_tokenizers
from mtkit.model_folder.model_card import write_new_model
from mtkit.pipeline.prepare_corpus import PreparedCorpora
from mtkit.pipeline.reconcile import flat_keys
from mtkit.pipeline.run_folder import RunFolder
from mtkit.pipeline.train_stage import model_metadata
from mtkit.recipe.paths import to_plain
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.checkpoints.averaging import average_checkpoints
from mtkit.training.checkpoints.checkpoint import verify_checkpoint


def average_models(checkpoints: Sequence[Path], folder: Path) -> None:
    """Write a model folder with the mean of the weights of several checkpoints.

    Vaswani et al. 2017, sec. 6.1. https://arxiv.org/abs/1706.03762

    Args:
        checkpoints: checkpoints in run folders, model folders or finished runs, all of one model; metadata, tokenizers
            and lexicon are those of the first.
        folder: the model folder to write; an existing model folder is replaced.

    Raises:
        UsageError: `folder` exists and is not a model folder, has other files, or is one of `checkpoints`.
        MissingInputError: a checkpoint, or the run folder of the first one, does not exist.
        DataError: a checkpoint is damaged, they are not of one model, or another version of mtkit wrote them.
        BusyError: another process is writing the folder.
        ReadWriteError: the folder cannot be written.
    """
    require_replaceable(folder)
    sources = [path if (path / WEIGHTS).is_file() else find_model(path) for path in checkpoints]
    if folder.resolve() in {source.resolve() for source in sources}:
        raise UsageError(f"{folder}: is one of the models to average, which it would replace; choose another name")
    for source in sources:
        if (source / CONFIG).is_file():
            verify_model(source)
        else:
            verify_checkpoint(source)
    for source in sources:
        if (source / CONFIG).is_file() and (storage := read_metadata(source).storage) != "float32":
            raise DataError(
                f"{source}: its weights are stored in {storage}; average the models before compressing them"
            )
    metadata, tokenizers, lexicon = _metadata(sources[0])
    tensors = merge_low_rank(average_checkpoints(sources))
    for source in sources[1:]:
        run = RunFolder(source.resolve().parent.parent)
        if (source / CONFIG).is_file() or run.recipe.is_file():
            other_metadata, other_tokenizers, _ = _metadata(source)
            _require_same_model(metadata, sources[0], other_metadata, source)
        elif run.tokenizer.is_dir():  # without a recipe, a checkpoint does not say how its weights are used
            other_tokenizers = TokenizerPair.load(run.tokenizer)
        else:
            continue
        if other_tokenizers.hash() != tokenizers.hash():
            raise DataError(
                f"{source}: its vocabularies differ from those of {sources[0]}, so equal ids are different tokens; "
                "only checkpoints of one model can be averaged"
            )
    with OutputLock(folder, make_parents=True):
        write_new_model(folder, tensors, metadata, tokenizers, lexicon=lexicon)


def _require_same_model(first: ModelMetadata, first_source: Path, other: ModelMetadata, source: Path) -> None:
    """Check that weights of equal shape are used in the same way.

    Raises:
        DataError: they are not; names the first key.
    """
    used = []  # the values on which the meaning of weights depends, by key: all but dropout, which acts in training
    for metadata in (first, other):
        content = {key: to_plain(getattr(metadata, key)) for key in ("src_lang", "tgt_lang", "tags", "model")}
        used.append({key: value for key, value in flat_keys(content) if "drop" not in key})
    ours, theirs = used
    for key in [*ours, *theirs]:
        if ours.get(key) != theirs.get(key):
            raise DataError(
                f"{source}: not the same model as {first_source}: {key} is {theirs.get(key)!r} there and "
                f"{ours.get(key)!r} here; only checkpoints of one model can be averaged"
            )


def _metadata(source: Path) -> tuple[ModelMetadata, TokenizerPair, Path]:
    """Return metadata, tokenizers and lexicon file of a model folder or of a checkpoint in a run folder."""
    if (source / CONFIG).is_file():
        metadata = read_metadata(source)
        return metadata, read_tokenizers(source, metadata), source / LEXICON
    run = RunFolder(source.resolve().parent.parent)
    if not run.recipe.is_file():
        raise MissingInputError(f"{source}: not inside a run folder; {run.recipe} does not exist")
    recipe = run.load_recipe()
    tokenizers = TokenizerPair.load(run.tokenizer)
    corpora = PreparedCorpora(run.open_train(recipe), [], run.lexicon)
    return model_metadata(recipe, tokenizers, corpora), tokenizers, run.lexicon
