"""The stages of a run, one function per command; each first makes what it needs and skips what is unchanged.

`run` = `train_tokenizer`, `preprocess`, `train`, then translating, scoring and the report. `evaluate_run` repeats the
translating and scoring alone; `compare_run` scores with other settings.
"""

from __future__ import annotations

import html
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.corpus.config import extract_lines
from mtkit.display import Table, count_of, in_current_folder
from mtkit.errors import RecipeError, UsageError
from mtkit.evaluation.comparison import Comparison
from mtkit.evaluation.config import METRICS, REPORTED, EvaluationConfig, ReportOptions
from mtkit.evaluation.tokenizer_choice import check_tokenizer_installed
from mtkit.model_folder.folder import find_model
from mtkit.pipeline.open_run import Run, open_run
from mtkit.pipeline.prepare_corpus import check_inputs, prepare_corpus
from mtkit.pipeline.prepare_tokenizer import prepare_tokenizer
from mtkit.pipeline.run_folder import RunFolder
from mtkit.pipeline.run_report import write_report
from mtkit.pipeline.score_test_sets import compare_test_sets, score_test_sets, summary_lines
from mtkit.pipeline.synthetic_text import make_synthetic_texts
from mtkit.pipeline.train_stage import check_init_sources, resolve_auto_batch_tokens, train_as_worker, train_model
from mtkit.recipe.recipe import validate_recipe
from mtkit.recipe.sections import Recipe
from mtkit.text.lines import require_path
from mtkit.training.distributed import init_process_group, num_processes
from mtkit.training.monitoring.log import Display
from mtkit.training.monitoring.trackers import require_packages


@dataclass(frozen=True)
class Report:
    """Result of a stage.

    Attributes:
        run_dir: the run folder, an absolute path.
        content: the content of report.json: `test`, with the scores of each test set by name, and `train`, with
            `updates`, `seconds`, `tokens_per_second`, `best_update` and others. Empty until training is finished.
    """

    run_dir: Path
    lines: list[str]
    content: dict[str, Any]

    def __repr__(self) -> str:
        scores = map(" ".join, self._scores())
        return f"Report({', '.join([in_current_folder(str(self.run_dir)), *scores])})"

    def _repr_html_(self) -> str:
        rows = self._scores()
        place = html.escape(in_current_folder(str(self.run_dir)))
        return f"<p>{place}</p>{Table(['test set', 'metric', 'score'], rows).html() if rows else ''}"

    def _scores(self) -> list[tuple[str, str, str]]:
        """Test set, metric and score."""
        return [
            (test, info.heading, f"{of[key]:.2f}")
            for test, of in self.content.get("test", {}).items()
            for key, info in REPORTED.items()
            if key in of
        ]


def run(
    recipe: Recipe, *, run_dir: Path | str | None = None, fresh: bool = False, display: Display | None = None
) -> Report:
    """Run all stages of a recipe: tokenizer, corpus, training, translation of the test sets, scores, plots.

    Stages whose inputs are unchanged are skipped; an interrupted training is resumed. Under `torchrun` the first
    process executes all stages and the others take part in training only; their report is empty.

    Args:
        recipe: from `load_recipe`, or built in Python; relative paths are relative to the current directory.
        run_dir: the run folder; None: `runs/NAME` in the current directory.
        fresh: delete a training that was started or finished in the run folder, and start over.
        display: its method `event(name, update, fields)` is called for every event; None: progress in a notebook,
            none elsewhere.

    Returns:
        The scores and training statistics. If `training.max_hours` ended training early, `content` has no `train`;
        call `run` again to continue.

    Raises:
        RecipeError: the recipe is invalid, or a training was started in the run folder with another recipe.
        DataError: a text file is unusable, or another version of mtkit wrote the run folder (FormatError).
        MissingInputError: a text file, or a model to start from, does not exist.
        MissingExtraError: a metric needs a package that is not installed.
        ComputeError: training failed: non-finite or diverging loss, or out of memory.
        BusyError: another process has locked the run folder.
        ReadWriteError: a file cannot be read or written.
        Interrupted: a signal; the state is saved.

    Example:
        >>> report = run(load_recipe("quickstart"))
        >>> report.content["test"]["embedded"]["bleu"]
    """
    return run_stages(validate_recipe(recipe), run_dir=run_dir, fresh=fresh, display=display)


def run_stages(
    recipe: Recipe,
    *,
    run_dir: Path | str | None = None,
    fresh: bool = False,
    display: Display | None = None,
    started: float | None = None,
    after_training: Callable[[Run], None] = lambda run: None,
) -> Report:
    """Run all stages of a checked recipe; see `run`.

    Args:
        started: time of the clock at the start of the command, from which a time budget counts; None: now.
        after_training: may change the model before it is scored.
    """
    _require_packages(recipe.evaluation)

    def score(run: Run) -> list[str]:
        after_training(run)
        scores = score_test_sets(run)
        write_report(run)
        return ["", *summary_lines(run, scores)]

    return _train_and(score, recipe, run_dir, fresh=fresh, display=display, started=started)


def train(
    recipe: Recipe, *, run_dir: Path | str | None = None, fresh: bool = False, display: Display | None = None
) -> Report:
    """Train the model of a recipe, or resume its training; ends by writing the model folder `model/` in the run folder.

    The tokenizer and the corpus are made first if they are missing or their inputs changed. A recipe can be loaded from
    YAML or built in Python. Arguments, result and errors as `run`.

    Example:
        >>> from mtkit.corpus.config import CorpusConfig, ParallelFiles, TrainParallelFiles
        >>> from mtkit.models.transformer.config import TransformerConfig
        >>> from mtkit.training.config import TrainingConfig
        >>> corpus = CorpusConfig(
        ...     src_lang="en",
        ...     tgt_lang="de",
        ...     train=[TrainParallelFiles(src=Path("train.en"), tgt=Path("train.de"))],
        ...     valid=ParallelFiles(src=Path("valid.en"), tgt=Path("valid.de")),
        ... )
        >>> model = TransformerConfig(d_model=128, encoder_layers=3, decoder_layers=3)
        >>> recipe = Recipe(name="small", corpus=corpus, model=model, training=TrainingConfig(max_updates=2000))
        >>> report = train(recipe)
        >>> load_model(report.run_dir).translate(["A dog runs."])
    """
    return train_stages(validate_recipe(recipe), run_dir=run_dir, fresh=fresh, display=display)


def train_stages(
    recipe: Recipe,
    *,
    run_dir: Path | str | None = None,
    fresh: bool = False,
    display: Display | None = None,
    started: float | None = None,
) -> Report:
    """Train the model of a checked recipe; see `train` and `run_stages`."""
    return _train_and(
        lambda run: [f"model: {run.folder.model}"], recipe, run_dir, fresh=fresh, display=display, started=started
    )


def _train_and(
    finish: Callable[[Run], list[str]],
    recipe: Recipe,
    run_dir: Path | str | None,
    *,
    fresh: bool,
    display: Display | None,
    started: float | None,
) -> Report:
    """Train the model of a recipe, and then finish the run by a function that returns further lines of the report."""
    processes, micro_batches = num_processes(), recipe.training.micro_batches
    if processes > micro_batches:  # some would have nothing to do
        raise RecipeError(
            f"training.micro_batches: {micro_batches}, fewer than the {processes} processes, which divide the "
            f"micro-batches of an update among them; set it to {processes} or a multiple, and training.batch_tokens "
            f"(now {recipe.training.batch_tokens}) to the tokens of one micro-batch"
        )
    require_packages(recipe.training.trackers)
    with init_process_group() as ranks:
        if not ranks.is_first:
            return Report(train_as_worker(recipe, run_dir, ranks), [], {})
        make_synthetic_texts(recipe)
        check_inputs(recipe)
        with open_run(recipe, run_dir, fresh=fresh, display=display, started=started) as run:
            check_init_sources(run)
            tokenizers = prepare_tokenizer(run)
            corpora = prepare_corpus(run, tokenizers)
            resolved = resolve_auto_batch_tokens(run, tokenizers, corpora)
            ranks.barrier()  # workers can read tokenizer, corpora and recipe from here on, see train_as_worker
            outcome = train_model(resolved, tokenizers, corpora, ranks)
            return _report(run, [outcome.message, *(finish(run) if outcome.finished else [])])


def train_tokenizer(recipe: Recipe, *, run_dir: Path | str | None = None, display: Display | None = None) -> Report:
    """Train the tokenizer of a checked recipe unless it exists and is unchanged; see `run`."""
    make_synthetic_texts(recipe)
    check_inputs(recipe)
    with open_run(recipe, run_dir, display=display) as run:
        prepare_tokenizer(run)
        return _report(run, [str(run.folder.tokenizer)])


def preprocess(recipe: Recipe, *, run_dir: Path | str | None = None, display: Display | None = None) -> Report:
    """Clean and binarise the corpora of a checked recipe unless they exist and are unchanged; see `run`."""
    make_synthetic_texts(recipe)
    check_inputs(recipe)
    with open_run(recipe, run_dir, display=display) as run:
        corpora = prepare_corpus(run, prepare_tokenizer(run))
        lines = []
        for store in (*corpora.train, *corpora.valid):
            pairs, src, tgt = count_of(len(store), "pair"), store.stats("src"), store.stats("tgt")
            tokens = f"{src.num_tokens:,} source and {tgt.num_tokens:,} target tokens"
            lines.append(f"{store.folder}: {pairs}, {tokens}")
        return _report(run, lines)


def evaluate_run(run_dir: Path | str, *, display: Display | None = None) -> Report:
    """Translate and score the test sets of a finished run, skipping translations that are unchanged.

    Args:
        run_dir: the run folder.
        display: as in `run`.

    Returns:
        The scores, in `content["test"][TEST][METRIC]`.

    Raises:
        MissingInputError: not a run folder, or its training is not finished.
        RecipeError: the recipe has no test set.
        MissingExtraError: a metric needs a package that is not installed.
        DataError, BusyError, ReadWriteError: as `run`.

    Example:
        >>> evaluate_run(Path("runs/quickstart")).content["test"]
    """
    require_path("run_dir", run_dir)
    folder, recipe = _finished_run(run_dir)
    with open_run(recipe, folder.path, display=display) as run:
        return _report(run, summary_lines(run, score_test_sets(run)))


def compare_run(run_dir: Path | str, options: ReportOptions, *, display: Display | None = None) -> list[Comparison]:
    """Score the test sets of a finished run with the settings of a report; the run's own scores stay as they are.

    Args:
        run_dir: the run folder.
        options: settings of the report; metrics and tokenizer that they omit are those of the recipe.
        display: as in `run`.

    Returns:
        One result for each test set.

    Raises:
        UsageError: `options` has the documents of one test set, but the run has several.
        MissingInputError, RecipeError, MissingExtraError, DataError, BusyError, ReadWriteError: as `evaluate_run`.
    """
    folder, recipe = _finished_run(run_dir)
    _require_packages(options.apply(recipe.evaluation))
    if options.documents is not None and len(tests := recipe.corpus.test) > 1:
        name, files = next(iter(tests.items()))
        words = [folder.hyps(name), "--ref", files.tgt, "--docid", options.documents_file]
        raise UsageError(
            f"evaluate: --docid: {options.documents_file} belongs to one test set, but {folder.path} has "
            f"{len(tests)}: {', '.join(tests)}; score one alone: mtkit evaluate {shlex.join(map(str, words))}"
        )
    with open_run(recipe, folder.path, display=display) as run:
        return compare_test_sets(run, options)


def _finished_run(run_dir: Path | str) -> tuple[RunFolder, Recipe]:
    """The folder and the recipe of a finished run with test sets."""
    folder = RunFolder(Path(run_dir))
    recipe = folder.load_recipe()
    find_model(folder.model if folder.model.is_dir() else folder.path)
    if not recipe.corpus.test:
        raise RecipeError(f"{folder.recipe}: corpus.test: there is no test set to score")
    extract_lines(recipe.corpus.test.values())
    return folder, recipe


def _require_packages(config: EvaluationConfig) -> None:
    """Check the packages of metrics and tokenizer before hours of training, or minutes of translating."""
    for name in config.metrics:
        METRICS[name].require_installed()
    check_tokenizer_installed(config.tokenize)


def _report(run: Run, lines: list[str]) -> Report:
    return Report(run.folder.path, lines, run.folder.read_report())
