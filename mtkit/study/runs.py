"""Runs of a study: one ordinary run folder for each variant and seed, and the result of each run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from mtkit.errors import DamagedError, FormatError, MissingInputError, RecipeError
from mtkit.evaluation.tokenizer_choice import choose_tokenizer
from mtkit.evaluation.word_statistics import repetition_rate
from mtkit.io.files import hash_file
from mtkit.io.records import write_record
from mtkit.model_folder.config_file import CONFIG, WEIGHTS, read_config
from mtkit.pipeline.reconcile import reconcile_recipe, training_fingerprint
from mtkit.pipeline.run_folder import RunFolder, read_json
from mtkit.pipeline.score_test_sets import is_scored
from mtkit.recipe.recipe import load_saved
from mtkit.recipe.sections import Recipe
from mtkit.study.load import Study, StudyConfig
from mtkit.study.measures import bleu_of_length_groups, free_running_loss
from mtkit.text.lines import read_lines
from mtkit.training.monitoring.log import logged_events
from mtkit.training.objectives.config import DistillationConfig


@dataclass(frozen=True)
class FailureRecord:
    """Content of failed.json."""

    reason: str


@dataclass(frozen=True)
class StudyRun:
    """One variant trained from one seed.

    Attributes:
        recipe: with the run's own name and seed, and the study's test sets only.
        folder: runs/STUDY/VARIANT/seed-N; VARIANT@RATE if the learning rate was chosen from several.
        test: name of the study's first test set.
        source: run whose model initialises this one; None: random initialisation, or the recipe's init_from.
        teacher: run whose model this one is distilled from; None: the recipe has no teacher, or names its folder.
    """

    variant: str
    seed: int
    recipe: Recipe
    folder: RunFolder
    test: str
    source: StudyRun | None = None
    teacher: StudyRun | None = None

    @property
    def label(self) -> str:
        """Name in messages."""
        return f"{self.folder.path.parent.name}, seed {self.seed}"

    @property
    def required(self) -> list[StudyRun]:
        """Runs whose models this one needs."""
        return [run for run in (self.source, self.teacher) if run is not None]

    def is_finished(self) -> bool:
        """Return whether exactly this recipe was trained and scored in the folder, from the present source and teacher.

        The saved recipe alone does not say so: it is that of the last attempt, which may have been interrupted.
        """
        try:
            report = self.folder.read_report()
            scores = report.get("test", {})
            is_complete = all("bleu" in scores.get(test, {}) for test in self.recipe.corpus.test)
            if "train" not in report or not is_complete or not self.folder.model.is_dir():
                return False
            recipe = reconcile_recipe(self.recipe, self.folder)[0]
            trained = read_config(self.folder.model / CONFIG)["training"] == training_fingerprint(
                recipe.model, recipe.training
            )
            is_current = trained and recipe == load_saved(self.folder.recipe) and not self.outdated()
            return is_current and all(is_scored(recipe, self.folder, test) for test in self.recipe.corpus.test)
        except (DamagedError, FormatError, RecipeError, MissingInputError):  # running it repairs or reports it
            return False

    @property
    def _required_models(self) -> Path:
        return self.folder.path / "required-models.json"

    def note_required(self) -> None:
        """Record the weights of source and teacher, before the first training from them."""
        if self.required and not self.folder.has_training():
            write_record(self._required_models, {run.label: _weights_hash(run) for run in self.required})

    def outdated(self) -> list[str]:
        """Labels of source and teacher whose model is another one than that which the training began with."""
        recorded = read_json(self._required_models) if self.folder.has_training() else {}
        return [run.label for run in self.required if recorded.get(run.label) not in (None, _weights_hash(run))]

    @property
    def _failure(self) -> Path:
        return self.folder.path / "failed.json"

    def note_failure(self, reason: str) -> None:
        """Record a failed training in the run folder."""
        write_record(self._failure, {"reason": reason})

    def clear_failure(self) -> None:
        """Remove the record of a failed training, before a new attempt."""
        self._failure.unlink(missing_ok=True)

    def failure(self) -> str | None:
        """Reason why the last training failed; None if it did not fail."""
        try:
            record = read_json(self._failure, FailureRecord)
        except DamagedError as error:
            return error.what
        return str(record["reason"]) if record else None


def _weights_hash(run: StudyRun) -> str | None:
    weights = run.folder.model / WEIGHTS
    return hash_file(weights) if weights.is_file() else None


def study_folder(study: Study, run_dir: Path | None) -> Path:
    """Folder of a study: `run_dir`, or `runs/NAME` in the current directory."""
    return (run_dir if run_dir is not None else Path("runs") / study.config.name).resolve()


def runs_of(study: Study, folder: Path) -> list[StudyRun]:
    """All runs, seed by seed, so that every variant has a result early; a run follows its source and its teacher."""
    source_of, teacher_of = study.config.init_from_variant, study.config.teacher_variant
    runs: dict[tuple[str, int], StudyRun] = {}
    # stable: otherwise the file's order
    variants = sorted(study.recipes, key=lambda name: name in source_of or name in teacher_of)
    for seed, variant in itertools.product(study.config.seeds, variants):
        recipe = study.recipes[variant]
        source = runs[source_of[variant], seed] if variant in source_of else None
        teacher = runs[teacher_of[variant], seed] if variant in teacher_of else None
        training = replace(recipe.training, seed=seed)
        if source is not None:
            training = replace(training, init_from=source.folder.path)
        if teacher is not None and isinstance(training.objective, DistillationConfig):
            training = replace(training, objective=replace(training.objective, teacher=teacher.folder.path))
        corpus = replace(recipe.corpus, test={test: recipe.corpus.test[test] for test in study.tests})
        recipe = replace(recipe, name=f"{study.config.name}-{variant}-{seed}", corpus=corpus, training=training)
        name = f"{variant}@{study.rates[variant]:g}" if variant in study.rates else variant
        run_folder = RunFolder(folder / name / f"seed-{seed}")
        runs[variant, seed] = StudyRun(variant, seed, recipe, run_folder, study.test, source, teacher)
    return list(runs.values())


class RunState(StrEnum):
    """State of a run."""

    finished = "finished"
    failed = "failed"
    unfinished = "unfinished"


@dataclass(frozen=True)
class RunResult:
    """Result of one run.

    Attributes:
        reason: of a failure; empty otherwise.
        parameters: number of parameters; None if training has not started.
        metrics: by name, see `metric_names`; empty unless the run is finished.
    """

    run: StudyRun
    state: RunState
    reason: str
    parameters: int | None
    metrics: Mapping[str, float]
    hyps: list[str]


def run_result(run: StudyRun, config: StudyConfig | None = None) -> RunResult:
    """Read the result of a run from its folder, with the optional metrics of a study.

    Raises:
        DataError: a file is corrupted.
        MissingInputError: the test set or a file of the run is missing.
    """
    events = logged_events(run.folder.log)
    parameters = next((event["parameters"] for event in reversed(events) if event["event"] == "begin"), None)
    if not run.is_finished():
        reason = run.failure()
        state = RunState.unfinished if reason is None else RunState.failed
        return RunResult(run, state, reason or "", parameters, {}, [])
    hyps = list(read_lines(run.folder.hyps(run.test)))
    report = run.folder.read_report()
    metrics = _metrics(report["train"], report["test"][run.test], events, lines=len(hyps))
    if config is not None and config.bleu_by_length:
        files = run.recipe.corpus.test[run.test]
        srcs, refs = list(read_lines(files.src)), list(read_lines(files.tgt))
        lang = run.recipe.corpus.language_of_target(files)
        tokenizer = choose_tokenizer(refs, lang, run.recipe.evaluation.tokenize)
        groups = bleu_of_length_groups(srcs, hyps, refs, config.bleu_by_length, tokenize=tokenizer.name)
        metrics |= {f"bleu {name}": value for name, value in groups.items()}
    if config is not None and config.exposure_bias:
        metrics["repetition"] = repetition_rate(hyps)
        if run.recipe.corpus.valid is not None:
            metrics["free_running_loss"] = free_running_loss(run.folder)
    return RunResult(run, RunState.finished, "", parameters, metrics, hyps)


def _metrics(train: Any, test: Any, events: list[dict[str, Any]], *, lines: int) -> dict[str, float]:
    metrics = {"bleu": test["bleu"], "tokens_per_second": train["tokens_per_second"], "updates": train["updates"]}
    losses = {event["update"]: event["nll"] for event in events if event["event"] == "validation"}
    last = next(reversed(losses.values()), None)
    loss = last if train["best_update"] is None else losses.get(train["best_update"])  # None: its line is damaged
    if loss is not None:
        metrics["loss"] = loss
    if test.get("seconds"):
        metrics["lines_per_second"] = lines / test["seconds"]
    return metrics
