"""A whole study: the plan of its runs, their execution, and its report; finished runs are kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mtkit.display import Table, format_duration
from mtkit.errors import DataError, MissingInputError
from mtkit.io.files import translate_write_errors, write_json, write_text
from mtkit.io.lock import RunLock
from mtkit.pipeline.estimate import TrainingEstimate, estimate_training
from mtkit.plot.curves import LearningCurves, curve_blocks, mean_curves, read_curves
from mtkit.plot.page import Curve, Picture, curves, outline, page, table
from mtkit.study.jobs import DeviceSlot, prepare_runs, run_jobs
from mtkit.study.load import Study
from mtkit.study.results import (
    StudyResults,
    VariantRow,
    as_csv,
    as_json,
    compare_runs,
    markdown,
    notes,
    study_table,
)
from mtkit.study.runs import RunState, StudyRun, run_result, runs_of
from mtkit.training.monitoring.log import Display
from mtkit.training.monitoring.meter import busy_lines, read_cpu_times
from mtkit.training.objectives.config import CrossEntropyConfig


@dataclass(frozen=True)
class StudyReport:
    """Results of a study, and the files written with them."""

    results: StudyResults
    files: list[Path]


def run_study(study: Study, folder: Path, slots: Sequence[DeviceSlot], *, fresh: bool, display: Display) -> StudyReport:
    """Train and score every unfinished run, then compare all variants.

    Args:
        folder: of the study, see study_folder.
        slots: resources, one run at a time on each.
        fresh: discard all runs first.

    Raises:
        MtkitError: the study cannot be run. A failed training is no error but part of the results.
    """

    def train(runs: Sequence[StudyRun]) -> None:
        prepare_runs(runs, fresh=fresh, display=display)
        run_jobs([run for run in runs if not run.is_finished()], slots, display)

    with RunLock(folder):
        tried = trials(study, folder)
        train(tried)
        paths = {run.folder.path for run in tried}
        chosen = with_chosen_rates(study, folder, _loss)
        train([run for run in runs_of(chosen, folder) if run.folder.path not in paths])
    return report_study(study, folder)


def _loss(run: StudyRun) -> float | None:
    """Loss of a trial of a learning rate on valid; infinite if it failed, None if it has not ended."""
    result = run_result(run)
    return result.metrics.get("loss", math.inf if result.state == RunState.failed else None)


def report_study(study: Study, folder: Path) -> StudyReport:
    """Compare the runs that are finished so far; write the tables, and a page with these and the curves.

    Raises:
        MissingInputError: no run has finished or failed, or a file of a run is missing.
        DataError: a file of a run is corrupted.
        ReadWriteError: the report cannot be written.
    """
    study = with_chosen_rates(study, folder, _loss)
    runs = runs_of(study, folder)
    results = compare_runs(study, runs)
    if all(row.count(RunState.unfinished) == len(row.results) for row in results.rows):
        raise MissingInputError(
            f"{folder}: none of the {len(runs)} runs of this study has finished with these settings; omit "
            "--report-only to train them, or name their folder with --run-dir"
        )
    with translate_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "results.md", markdown(results))
    write_text(folder / "results.csv", as_csv(results))
    write_json(folder / "results.json", as_json(results))
    write_text(folder / "results.html", results_page(results))
    return StudyReport(results, [folder / f"results.{suffix}" for suffix in ("md", "csv", "json", "html")])


def plan(study: Study, runs: Sequence[StudyRun], *, num_slots: int) -> tuple[Table, list[str]]:
    """Table with a row for each variant, and the expected time of the whole study.

    The time of an update is measured as in `mtkit train --dry-run`, once for all variants with the same model, on all
    threads; if other processes use the machine, it is the time on free cores.

    Raises:
        RecipeError: a recipe cannot be built.
    """
    rows, remaining = [], 0.0
    measured, before = dict[str, float](), read_cpu_times()
    for variant in study.recipes:
        of_variant = [run for run in runs if run.variant == variant]
        estimate = _estimate(study, variant, measured)
        remaining += estimate.seconds * sum(not run.is_finished() for run in of_variant)
        seeds = (f"{run.seed} ({RunState.finished})" if run.is_finished() else str(run.seed) for run in of_variant)
        numbers = [f"{estimate.parameters:,}", f"{estimate.updates:,}", format_duration(estimate.seconds)]
        rows.append([variant, *numbers, ", ".join(seeds)])
    parallel = f" {num_slots} at a time on the same machine," if num_slots > 1 else ""
    lines = [
        f"{len(runs)} runs,{parallel} about {format_duration(remaining)} of training remaining, not counting "
        "validation, translation and start-up",
        *busy_lines(before, read_cpu_times(), remaining),
        f"folder: {runs[0].folder.path.parent.parent}",
    ]
    headings = ["variant", "parameters", "updates", "time of a run", "seeds"]
    return Table(headings, rows, text=("variant", "seeds"), title=study.config.name), lines


def _estimate(study: Study, variant: str, measured: dict[str, float]) -> TrainingEstimate:
    """Estimate for a variant; a teacher, not trained yet, computes a forward pass: a third of its own training."""
    recipe, teacher = study.recipes[variant], study.config.teacher_variant.get(variant)
    if teacher is None:
        return estimate_training(recipe, measured)
    alone = replace(recipe, training=replace(recipe.training, objective=CrossEntropyConfig()))
    student = estimate_training(alone, measured)
    taught_by = estimate_training(study.recipes[teacher], measured)
    forward = taught_by.seconds / taught_by.updates / 3
    return replace(student, seconds=student.seconds + forward * student.updates)


def trials(study: Study, folder: Path) -> list[StudyRun]:
    """Runs of the first seed with each learning rate that the study tries, after the runs that they need."""
    first = replace(study, config=replace(study.config, seeds=study.config.seeds[:1]))
    found: dict[Path, StudyRun] = {}
    for variant in study.recipes:
        for rate in study.config.learning_rates.get(variant, []):
            runs = runs_of(with_rates(first, {variant: rate}), folder)
            tried = next(run for run in runs if run.variant == variant)
            found |= {run.folder.path: run for run in [*tried.required, tried]}
    return list(found.values())


def with_chosen_rates(study: Study, folder: Path, loss: Callable[[StudyRun], float | None]) -> Study:
    """The study with the learning rate of each variant whose trials have ended; the other variants are left out.

    Variants are compared fairly only if each has a learning rate that suits it. Each rate is tried with the first seed,
    and the one with the lowest loss on the valid set is taken; the test sets have no part in the choice. The training
    with the chosen rate counts as that of the first seed.

    Args:
        study: with or without rates to choose.
        loss: of a trial on the valid set; infinite for a failed one, None before its end.
    """
    losses: dict[str, dict[float, float | None]] = {}
    for run in trials(study, folder):
        if run.variant in study.config.learning_rates:
            losses.setdefault(run.variant, {})[run.recipe.training.optimiser.learning_rate] = loss(run)
    ended = {name: {rate: each for rate, each in tried.items() if each is not None} for name, tried in losses.items()}
    complete = {name: tried for name, tried in ended.items() if len(tried) == len(losses[name])}
    best = {name: min(tried, key=lambda rate: tried[rate]) for name, tried in complete.items()}
    return with_rates(study, {name: rate for name, rate in best.items() if math.isfinite(complete[name][rate])})


def with_rates(study: Study, rates: Mapping[str, float]) -> Study:
    """The study with these learning rates, without the variants that have several and none of them here."""
    recipes = {
        name: each for name, each in study.recipes.items() if name in rates or name not in study.config.learning_rates
    }
    for variant in recipes.keys() & rates.keys():
        training = recipes[variant].training
        optimiser = replace(training.optimiser, learning_rate=rates[variant])
        recipes[variant] = replace(recipes[variant], training=replace(training, optimiser=optimiser))
    return replace(study, recipes=recipes, rates=rates)


def results_page(results: StudyResults) -> str:
    """The table; the curves of all variants, each the mean over its seeds; and BLEU by source length."""
    shown = [mean_curves(row.variant, _curves_of_runs(row)) for row in results.rows]
    blocks = [table(study_table(results)), outline(notes(results)), *curve_blocks([each for each in shown if each.nll])]
    groups = [name for name, lines in results.lines_by_length.items() if lines]
    by_length = list[Curve]()
    for row in (each for each in results.rows if each.metrics):
        bleu = list(enumerate((row.metrics[f"bleu {name}"] for name in groups), start=1))
        band = [(n, each.mean - each.std, each.mean + each.std) for n, each in bleu if each.std is not None]
        by_length.append(Curve(row.variant, [(n, each.mean) for n, each in bleu], band))
    if groups and by_length:
        title = "BLEU by source length, as in fig. 2 of Bahdanau et al. 2015; band: standard deviation of seeds"
        blocks.append(curves(Picture(title, by_length, f"words of the source: {', '.join(groups)}", "BLEU")))
    return page(results.study.config.name, blocks)


def _curves_of_runs(row: VariantRow) -> list[LearningCurves]:
    """Curves of the runs that have been validated."""
    curves = []
    for result in row.results:
        log = result.run.folder.log
        try:
            curves += [read_curves(log, row.variant)] if log.is_file() else []
        except DataError:  # a run that has only just started
            continue
    return [each for each in curves if each.nll]
