"""The mean of several checkpoints as a model folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mtkit.corpus.store import Store
from mtkit.errors import DataError, MissingInputError, UsageError
from mtkit.model_folder.folder import (
    CONFIG,
    LEXICON,
    WEIGHTS,
    Description,
    find_model,
    read_description,
    read_tokenizers,
    verify_model,
    write_model,
)
from mtkit.pipeline.model_card import model_card
from mtkit.pipeline.prepare_corpus import Stores
from mtkit.pipeline.run_folder import RunFolder
from mtkit.pipeline.train_stage import describe
from mtkit.recipe.recipe import load_saved
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.checkpoints.averaging import average_checkpoints


def average(checkpoints: Sequence[Path], folder: Path) -> None:
    """Write a model folder with the mean of the weights (Vaswani et al. 2017, sec. 6.1).

    Args:
        checkpoints: checkpoints inside run folders, model folders or finished runs, all of one model; what goes with
            the weights is taken from the first.
        folder: is made; a model folder that is there is replaced.

    Raises:
        UsageError: `folder` is there and is no model folder.
        MissingInputError: a checkpoint, or the run folder of the first one, is not there.
        DataError: a checkpoint is damaged, or they are not of one model.
        ReadWriteError: the folder cannot be written.
    """
    if folder.exists() and not (folder / CONFIG).is_file():
        raise UsageError(f"{folder}: is there and is no model folder; choose another name")
    sources = [path if (path / WEIGHTS).is_file() else find_model(path) for path in checkpoints]
    for source in sources:
        if (source / CONFIG).is_file():
            verify_model(source)
    tensors = average_checkpoints(sources)
    description, tokenizers, lexicon = _belongings(sources[0])
    for source in sources[1:]:
        if _pieces(source) not in (None, tokenizers.hash()):
            raise DataError(
                f"{source}: has other vocabularies than {sources[0]}, so that the same number is another piece; only "
                "checkpoints of one model can be averaged"
            )
    card = model_card(description, {}, parameters=sum(tensor.numel() for tensor in tensors.values()))
    write_model(folder, tensors, description, tokenizers, card=card, lexicon=lexicon if lexicon.is_file() else None)


def _pieces(source: Path) -> str | None:
    """The hash of the tokenizers that go with weights; None for a checkpoint that lies in no run folder."""
    if (source / CONFIG).is_file():
        return read_tokenizers(source, read_description(source).tokenizer).hash()
    run = RunFolder(source.resolve().parent.parent)
    return TokenizerPair.load(run.tokenizer).hash() if run.tokenizer.is_dir() else None


def _belongings(source: Path) -> tuple[Description, TokenizerPair, Path]:
    """What a model folder holds besides weights, for a model folder or a checkpoint of a run; the lexicon's file."""
    if (source / CONFIG).is_file():
        description = read_description(source)
        return description, read_tokenizers(source, description.tokenizer), source / LEXICON
    run = RunFolder(source.resolve().parent.parent)
    if not run.recipe.is_file():
        raise MissingInputError(f"{source}: lies in no run folder; {run.recipe} is not there")
    recipe = load_saved(run.recipe)
    tokenizers = TokenizerPair.load(run.tokenizer)
    stores = Stores([Store(run.train(number)) for number in range(len(recipe.corpus.train))], None, run.lexicon)
    return describe(recipe, tokenizers, stores.longest_source), tokenizers, run.lexicon
