"""Runs of a study: one ordinary run folder for each variant and seed, and the result of each run.

Two measures are those of some studies alone. Free-running loss is the validation loss of a decoder that reads its own
tokens, a measure of exposure bias. BLEU by length is that of fig. 2 of Bahdanau et al. 2015 (arXiv:1409.0473).
"""

from __future__ import annotations

import hashlib
import itertools
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.loader import eval_batches
from mtkit.corpus.store import MANIFEST
from mtkit.errors import DamagedError, FormatError, MissingInputError, RecipeError
from mtkit.evaluation.score import bleu_of
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer, choose_tokenizer
from mtkit.evaluation.word_statistics import repetition_rate
from mtkit.hardware import default_device
from mtkit.io.files import hash_file
from mtkit.io.records import write_record
from mtkit.model_folder.config_file import CONFIG, WEIGHTS, read_config
from mtkit.model_folder.folder import read_model
from mtkit.models.interface import TranslationModel
from mtkit.pipeline.reconcile import reconcile_recipe, training_fingerprint
from mtkit.pipeline.run_folder import FiniteFloat, RunFolder, read_json
from mtkit.pipeline.score_test_sets import is_scored
from mtkit.recipe.recipe import load_saved
from mtkit.recipe.sections import Recipe
from mtkit.study.load import Study, StudyConfig
from mtkit.text.lines import read_lines
from mtkit.training.decoder_inputs.interface import DecoderInput, sample_argmax
from mtkit.training.decoder_inputs.scheduled_sampling import step_by_step
from mtkit.training.monitoring.log import logged_events
from mtkit.training.objectives.config import DistillationConfig
from mtkit.training.objectives.cross_entropy import CrossEntropy

CACHE_FILE = "free_running.json"
BATCH_TOKENS = 4096  # sentences × longest side; the loss does not depend on it


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


@dataclass(frozen=True)
class CachedLoss:
    """Content of the cache file in the run folder; valid for the weights and validation sets with this hash."""

    measured: str
    nats_per_token: FiniteFloat


class FreeRunning(DecoderInput):
    """Decoder input without teacher forcing: after bos, the decoder reads its own most probable tokens."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """Decoder states of the scored tokens, see DecoderInput."""
        no_truth = torch.zeros_like(batch.target.ids, dtype=torch.bool)  # [B, T]
        return step_by_step(model, batch, truth=no_truth, sampler=sample_argmax)


def free_running_loss(folder: RunFolder) -> float:
    """Loss on the validation set in nats per reference token, without teacher forcing; cached in the run folder.

    Like the validation loss, it scores each reference token at its position, whatever tokens the decoder has read.

    Raises:
        MissingInputError, DataError: the model or the binary corpus is missing or corrupted.
    """
    path = folder.path / CACHE_FILE
    valid = folder.open_valid(folder.load_recipe())
    files = [folder.model / WEIGHTS, *(store.folder / MANIFEST for store in valid)]
    measured = hashlib.sha256("".join(map(hash_file, files)).encode()).hexdigest()
    with suppress(DamagedError):  # then it is measured again
        cached = read_json(path, CachedLoss)
        if cached and cached["measured"] == measured:
            return float(cached["nats_per_token"])
    model, objective = read_model(folder.model).model.to(default_device()), CrossEntropy(FreeRunning(), 0.0)
    nats, tokens = 0.0, 0
    with torch.no_grad():
        for batch in itertools.chain.from_iterable(eval_batches(store, batch_tokens=BATCH_TOKENS) for store in valid):
            losses = model(batch.to(default_device()), objective)
            nats += float(losses.sum)
            tokens += losses.tokens
    loss = nats / max(tokens, 1)
    write_record(path, {"measured": measured, "nats_per_token": loss})
    return loss


def group_names(limits: Sequence[int]) -> list[str]:
    """Names of the length groups: `1-10`, `11-20`, `over 20`."""
    starts = [1, *(limit + 1 for limit in limits)]
    return [f"{start}-{limit}" for start, limit in zip(starts, limits, strict=False)] + [f"over {limits[-1]}"]


def lines_by_length(srcs: Sequence[str], limits: Sequence[int]) -> dict[str, list[int]]:
    """Line indices of each length group; the length of a source is its number of whitespace-separated words.

    Args:
        limits: maximum length of each group except the last, ascending.
    """
    by_name: dict[str, list[int]] = {name: [] for name in group_names(limits)}
    groups = list(by_name.values())
    for index, src in enumerate(srcs):
        groups[bisect_left(limits, len(src.split()))].append(index)
    return by_name


def bleu_of_length_groups(
    srcs: Sequence[str],
    hyps: Sequence[str],
    refs: Sequence[str],
    limits: Sequence[int],
    *,
    tokenize: SacrebleuTokenizer,
) -> dict[str, float]:
    """BLEU of each length group (see lines_by_length); empty groups are left out.

    Args:
        srcs, hyps, refs: equally many lines.
        limits: maximum length of each group except the last, ascending.
    """
    bleu = {}
    for name, indices in lines_by_length(srcs, limits).items():
        if indices:
            group = [hyps[index] for index in indices], [refs[index] for index in indices]
            bleu[name] = bleu_of(*group, tokenize=tokenize)
    return bleu
