"""Plan of a study, without its corpus: the runs, their sizes and their expected time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mtkit.io.counts import format_duration
from mtkit.io.table import Table
from mtkit.pipeline.dry_run import TrainingEstimate, estimate_training
from mtkit.study.load import Study
from mtkit.study.runs import RunState, StudyRun
from mtkit.training.monitoring.busy_machine import busy_lines, read_cpu_times
from mtkit.training.objectives.config import CrossEntropyConfig


def plan(study: Study, runs: Sequence[StudyRun], *, num_slots: int) -> tuple[Table, list[str]]:
    """Table with a row for each variant, and the expected time of the whole study.

    The time of an update is measured as in `mtkit train --dry-run`, once for all variants with the same model, on all
    threads; if other processes use the machine, it is the time on free cores.

    Args:
        study: the study.
        runs: all its runs.
        num_slots: runs at a time.

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
