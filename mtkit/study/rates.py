"""Learning rates of variants: each tried with the first seed, chosen by the loss on the valid set.

Variants are compared fairly only if each has a learning rate that suits it. The training with the chosen rate counts
as that of the first seed; the test sets have no part in the choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from mtkit.study.load import Study
from mtkit.study.runs import StudyRun, runs_of


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

    Args:
        study: with or without rates to choose.
        folder: of its runs.
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
