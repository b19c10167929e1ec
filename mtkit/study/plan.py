"""What a study would train: its runs, their sizes, and about how long they take; without the corpus."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from mtkit.pipeline.dry_run import duration, forecast
from mtkit.study.load import Study
from mtkit.study.runs import State, StudyRun


def plan(study: Study, runs: Sequence[StudyRun], *, at_a_time: int) -> tuple[Table, list[str]]:
    """A table with a row for each variant, and how long all of it takes.

    The time of an update is measured as `mtkit train --dry-run` does, once for each variant, on all threads.

    Raises:
        RecipeError: parts of a recipe do not fit each other.
    """
    table = Table(title=study.config.name)
    for heading in ("variant", "parameters", "updates", "time of a run", "seeds"):
        table.add_column(heading, justify="left" if heading in ("variant", "seeds") else "right", no_wrap=True)
    left = 0.0
    for variant, recipe in study.recipes.items():
        own = [run for run in runs if run.variant == variant]
        expected = forecast(recipe)
        left += expected.seconds * sum(not run.is_finished() for run in own)
        table.add_row(
            variant,
            f"{expected.parameters:,}",
            f"{recipe.training.max_updates:,}",
            duration(expected.seconds),
            ", ".join(f"{run.seed} ({State.finished})" if run.is_finished() else str(run.seed) for run in own),
        )
    each = f" {at_a_time} at a time, which share this machine," if at_a_time > 1 else ""
    lines = [
        f"{len(runs)} runs,{each} about {duration(left)} of training that is left to do; validation, translation and "
        "starting come on top",
        f"everything goes to {runs[0].folder.path.parent.parent}",
    ]
    return table, lines
