"""The commands over one run folder; each first makes what it needs and is missing, and skips what did not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtkit.corpus.store import Store
from mtkit.errors import MissingInputError, RecipeError
from mtkit.evaluation import moses
from mtkit.evaluation.config import MetricName
from mtkit.model_folder.folder import find_model
from mtkit.pipeline.batch_size import settle_batch_tokens
from mtkit.pipeline.plots import draw_pictures
from mtkit.pipeline.prepare_corpus import check_inputs, make_corpus, make_tokenizer
from mtkit.pipeline.run_folder import Run, RunFolder, open_run
from mtkit.pipeline.score_test_sets import evaluate_tests, summary_lines
from mtkit.pipeline.train_stage import Trained, check_beginnings, follow, train_model
from mtkit.recipe.recipe import Recipe, load_saved
from mtkit.training.distributed.process_group import Ranks, joined
from mtkit.training.monitoring.log import Display


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

    Of several processes (see `training.distributed`) the first does all of it, and the others train beside it.

    Args:
        recipe: says everything.
        run_dir: where everything goes; `runs/NAME` in the current directory unless given.
        fresh: forget a training that was begun or finished in that folder.
        display: is shown every event.

    Raises:
        MtkitError: one of its kinds, see errors.py.
    """
    with joined() as ranks:
        if not ranks.is_first:
            return Report(follow(recipe, run_dir, ranks), [], {})
        check_inputs(recipe)
        if "moses" in recipe.evaluation.metrics:
            moses.check_installed()  # before hours of training
        with open_run(recipe, run_dir, fresh=fresh, display=display) as held:
            trained = _train(held, ranks)
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
    with joined() as ranks:
        if not ranks.is_first:
            return Report(follow(recipe, run_dir, ranks), [], {})
        check_inputs(recipe)
        with open_run(recipe, run_dir, fresh=fresh, display=display) as held:
            trained = _train(held, ranks)
            model = [f"model: {held.folder.model}"] if trained.finished else []
            return _report(held, [trained.sentence, *model])


def _train(held: Run, ranks: Ranks) -> Trained:
    check_beginnings(held)
    tokenizers = make_tokenizer(held)
    stores = make_corpus(held, tokenizers)
    held = settle_batch_tokens(held, tokenizers, stores)
    ranks.wait()  # the others read what was made
    return train_model(held, tokenizers, stores, ranks)


def evaluate_run(run_dir: Path, *, also: Sequence[MetricName] = (), display: Display | None = None) -> Report:
    """Translate and score the test sets of a finished run; what did not change is skipped.

    Args:
        run_dir: the run folder.
        also: metrics that the report must have besides those of the recipe.
        display: is shown every event.

    Raises:
        MissingInputError: no such run, or its training is not finished.
        RecipeError: its recipe names no test set.
        MissingExtraError: a metric needs it.
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
        asked = held.recipe.evaluation
        asked = replace(asked, metrics=list(dict.fromkeys([*asked.metrics, *also])))
        scores = evaluate_tests(replace(held, recipe=replace(held.recipe, evaluation=asked)))
        return _report(held, summary_lines(held, scores))


def _report(held: Run, lines: list[str]) -> Report:
    return Report(held.folder.path, lines, held.folder.read_report())
