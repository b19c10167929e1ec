"""The runs of a study: one ordinary run folder for each variant and seed, and what has become of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from mtkit.errors import RecipeError
from mtkit.evaluation.repetition import repetition_rate
from mtkit.io.files import reading, write_json
from mtkit.pipeline.records import read_json
from mtkit.pipeline.run_folder import RunFolder, agreed
from mtkit.recipe.recipe import Recipe, load_saved
from mtkit.study.by_length import bleu_by_length
from mtkit.study.config import StudyConfig
from mtkit.study.free_running import free_running_loss
from mtkit.study.load import Study
from mtkit.text.lines import read_lines
from mtkit.training.monitoring.log import parse_line


@dataclass(frozen=True)
class Failure:
    """What failed.json says."""

    reason: str


@dataclass(frozen=True)
class StudyRun:
    """One variant trained from one seed.

    Attributes:
        recipe: with the run's own name and seed, and no other test set than the study's.
        folder: runs/STUDY/VARIANT/seed-N.
        test: the test set of the study.
        source: the run whose model this one begins from.
    """

    variant: str
    seed: int
    recipe: Recipe
    folder: RunFolder
    test: str
    source: StudyRun | None = None

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"{self.variant}, seed {self.seed}"

    def is_finished(self) -> bool:
        """Whether this very recipe was trained and scored here."""
        report = self.folder.read_report()
        scores = report.get("test", {}).get(self.test, {})
        if "train" not in report or "bleu" not in scores or not self.folder.model.is_dir():
            return False
        try:
            return agreed(self.recipe, self.folder)[0] == load_saved(self.folder.recipe)
        except RecipeError:  # of another recipe or another version; running it says more
            return False

    @property
    def _failure(self) -> Path:
        return self.folder.path / "failed.json"

    def note_failure(self, reason: str) -> None:
        """Remember that training failed, and why."""
        write_json(self._failure, {"reason": reason})

    def forget_failure(self) -> None:
        """It is tried again."""
        self._failure.unlink(missing_ok=True)

    def failure(self) -> str | None:
        """Why its last training failed; None if it did not."""
        found = read_json(self._failure, Failure)
        return str(found["reason"]) if found else None


def study_folder(study: Study, run_dir: Path | None) -> Path:
    """Where a study goes: `runs/NAME` in the current directory unless said otherwise."""
    return (run_dir if run_dir is not None else Path("runs") / study.config.name).resolve()


def runs_of(study: Study, folder: Path) -> list[StudyRun]:
    """All runs, seed by seed, so that every variant soon has one; those that begin from others come after them."""
    return [run for seed in study.config.seeds for run in _of_seed(study, folder, seed)]


def _of_seed(study: Study, folder: Path, seed: int) -> Iterator[StudyRun]:
    begin_from = study.config.begin_from
    done: dict[str, StudyRun] = {}
    for variant in sorted(study.recipes, key=lambda name: name in begin_from):  # stable: else in the order of the file
        recipe = study.recipes[variant]
        own = RunFolder(folder / variant / f"seed-{seed}")
        source = done[begin_from[variant]] if variant in begin_from else None
        training = replace(recipe.training, seed=seed)
        if source is not None:
            training = replace(training, init_from=source.folder.path)
        corpus = replace(recipe.corpus, test={study.test: recipe.corpus.test[study.test]})
        named = replace(recipe, name=f"{study.config.name}-{variant}-{seed}", corpus=corpus, training=training)
        done[variant] = StudyRun(variant, seed, named, own, study.test, source)
        yield done[variant]


class State(StrEnum):
    """How far a run has come."""

    finished = "finished"
    failed = "failed"
    unfinished = "unfinished"


@dataclass(frozen=True)
class Outcome:
    """One run.

    Attributes:
        reason: why it failed; empty otherwise.
        parameters: of its model; None if training never began.
        figures: by name, see `FIGURES` in results.py; none unless it is finished.
        hyps: its translations of the test set.
    """

    run: StudyRun
    state: State
    reason: str
    parameters: int | None
    figures: Mapping[str, float]
    hyps: list[str]


def outcome(run: StudyRun, config: StudyConfig) -> Outcome:
    """Read what a run has left.

    Raises:
        DataError: a file is damaged.
        MissingInputError: the test set, or a file of the run, is no longer there.
    """
    events = _events(run)
    parameters = next((event["parameters"] for event in reversed(events) if event["event"] == "begin"), None)
    if not run.is_finished():
        reason = run.failure()
        state = State.unfinished if reason is None else State.failed
        return Outcome(run, state, reason or "", parameters, {}, [])
    hyps = list(read_lines(run.folder.hyps(run.test)))
    report = run.folder.read_report()
    figures = _figures(report["train"], report["test"][run.test], events, lines=len(hyps))
    figures |= _further(run, config, hyps)
    return Outcome(run, State.finished, "", parameters, figures, hyps)


def _figures(train: Any, test: Any, events: list[dict[str, Any]], *, lines: int) -> dict[str, float]:
    figures = {"bleu": test["bleu"], "tokens_per_second": train["tokens_per_second"], "updates": train["updates"]}
    losses = {event["update"]: event["nll"] for event in events if event["event"] == "validation"}
    loss = losses.get(train["best_update"], next(reversed(losses.values()), None))
    if loss is not None:
        figures["loss"] = loss
    if test.get("seconds"):
        figures["lines_per_second"] = lines / test["seconds"]
    return figures


def _further(run: StudyRun, config: StudyConfig, hyps: list[str]) -> dict[str, float]:
    """What this study asks for besides."""
    found: dict[str, float] = {}
    if config.by_length:
        files = run.recipe.corpus.test[run.test]
        srcs, refs = list(read_lines(files.src)), list(read_lines(files.tgt))
        tokenize = run.recipe.evaluation.segmentation(run.recipe.corpus.tgt_lang)
        groups = bleu_by_length(srcs, hyps, refs, config.by_length, tokenize=tokenize)
        found |= {f"bleu {name}": value for name, value in groups.items()}
    if config.exposure_bias:
        found["repetition"] = repetition_rate(hyps)
        if run.recipe.corpus.valid is not None:
            found["free_running_loss"] = free_running_loss(run.folder)
    return found


def _events(run: StudyRun) -> list[dict[str, Any]]:
    """Of its log; none if there is no log."""
    if not run.folder.log.is_file():
        return []
    with reading(run.folder.log):
        lines = run.folder.log.read_bytes().split(b"\n")
    return [event for line in lines if (event := parse_line(line)) is not None]
