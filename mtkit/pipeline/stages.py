"""The commands over one run folder; each first makes what it needs and is missing, and skips what did not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.corpus.store import Store
from mtkit.errors import MissingInputError, RecipeError
from mtkit.model_folder import CONFIG, Description, find_model, read_description, read_tokenizers, write_model
from mtkit.pipeline.corpus import Stores, check_inputs, make_corpus, make_tokenizer
from mtkit.pipeline.model_card import model_card
from mtkit.pipeline.pictures import draw_pictures
from mtkit.pipeline.run_folder import Run, RunFolder, open_run, read_json
from mtkit.pipeline.testing import evaluate_tests, summary_lines
from mtkit.pipeline.training import Trained, describe, train_model
from mtkit.recipe import Recipe, load_saved
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.average import average_checkpoints
from mtkit.training.log import Display


@dataclass(frozen=True)
class Report:
    """What a stage leaves.

    Attributes:
        run_dir: the folder with everything.
        lines: to be printed at the end.
        content: as in report.json; empty before training is finished.
    """

    run_dir: Path
    lines: list[str]
    content: dict[str, Any]


def run(recipe: Recipe, *, run_dir: Path | None = None, fresh: bool = False, display: Display | None = None) -> Report:
    """The whole route: tokenizer, corpus, training, translation of the test sets, scores, pictures.

    Args:
        recipe: says everything.
        run_dir: where everything goes; `runs/NAME` in the current directory unless given.
        fresh: forget a training that was begun or finished in that folder.
        display: is shown every event.

    Raises:
        MtkitError: one of its kinds, see errors.py.
    """
    check_inputs(recipe)
    with open_run(recipe, run_dir, fresh=fresh, display=display) as held:
        trained = _train(held)
        if not trained.finished:
            return _report(held, [trained.sentence])
        scores = evaluate_tests(held)
        draw_pictures(held)
        return _report(held, [trained.sentence, "", *summary_lines(held, scores)])


def train_tokenizer(recipe: Recipe, *, run_dir: Path | None = None, display: Display | None = None) -> Report:
    """Learn the tokenizer, if it is not there already. Arguments and errors as `run`."""
    check_inputs(recipe)
    with open_run(recipe, run_dir, display=display) as held:
        make_tokenizer(held)
        return _report(held, [str(held.folder.tokenizer)])


def preprocess(recipe: Recipe, *, run_dir: Path | None = None, display: Display | None = None) -> Report:
    """Clean and binarise the corpus, if it is not there already. Arguments and errors as `run`."""
    check_inputs(recipe)
    with open_run(recipe, run_dir, display=display) as held:
        stores = make_corpus(held, make_tokenizer(held))
        lines = [_said(store) for store in (*stores.train, *([stores.valid] if stores.valid else []))]
        return _report(held, lines)


def _said(store: Store) -> str:
    src, tgt = store.summary("src"), store.summary("tgt")
    return f"{store.folder}: {len(store):,} pairs, {src.pieces:,} source and {tgt.pieces:,} target pieces"


def train(
    recipe: Recipe, *, run_dir: Path | None = None, fresh: bool = False, display: Display | None = None
) -> Report:
    """Train, or go on where the run was interrupted; ends by writing `model/`. Arguments and errors as `run`."""
    check_inputs(recipe)
    with open_run(recipe, run_dir, fresh=fresh, display=display) as held:
        trained = _train(held)
        model = [f"model: {held.folder.model}"] if trained.finished else []
        return _report(held, [trained.sentence, *model])


def _train(held: Run) -> Trained:
    tokenizers = make_tokenizer(held)
    return train_model(held, tokenizers, make_corpus(held, tokenizers))


def evaluate_run(run_dir: Path, *, display: Display | None = None) -> Report:
    """Translate and score the test sets of a finished run; what did not change is skipped.

    Raises:
        MissingInputError: no such run, or its training is not finished.
        RecipeError: its recipe names no test set.
        MtkitError: others, see errors.py.
    """
    saved = RunFolder(run_dir).recipe
    if not saved.is_file():
        raise MissingInputError(f"{run_dir}: not a run folder; it has no recipe.yaml")
    find_model(run_dir / "model" if (run_dir / "model").is_dir() else run_dir)
    recipe = load_saved(saved)
    if not recipe.corpus.test:
        raise RecipeError(f"{saved}: corpus.test: names no test set; there is nothing to score")
    with open_run(recipe, run_dir, display=display) as held:
        scores = evaluate_tests(held)
        return _report(held, summary_lines(held, scores))


def average(checkpoints: Sequence[Path], output: Path) -> None:
    """Write a model folder with the mean of the weights of checkpoints, or of model folders.

    Raises:
        MissingInputError: a checkpoint, or the run folder around it, is not there.
        DataError: they are not of the same model, or damaged.
        ReadWriteError: the folder cannot be written.
    """
    description, tokenizers = _parts(checkpoints[0])
    weights = average_checkpoints(checkpoints)
    card = model_card(description, {}, parameters=sum(tensor.numel() for tensor in weights.values()))
    write_model(output, weights, description, tokenizers, card=card)


def _parts(path: Path) -> tuple[Description, TokenizerPair]:
    """All of a model but its weights: of a model folder, or of the run that a checkpoint is in."""
    if (path / CONFIG).is_file():
        description = read_description(path)
        return description, read_tokenizers(path, description.tokenizer)
    folder = RunFolder(path.absolute().parent.parent)
    if not folder.recipe.is_file():
        raise MissingInputError(f"{path}: neither a model folder nor a checkpoint inside of a run folder")
    recipe = load_saved(folder.recipe)
    tokenizers = TokenizerPair.load(folder.tokenizer)
    stores = Stores([Store(folder.train(number)) for number in range(len(recipe.corpus.train))], None)
    return describe(recipe, tokenizers, stores.longest_source), tokenizers


def _report(held: Run, lines: list[str]) -> Report:
    return Report(held.folder.path, lines, read_json(held.folder.report))
