"""The result of a study: of each variant the mean and the spread of every figure, and the test against the baseline."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mtkit.evaluation.repetition import repetition_rate
from mtkit.evaluation.significance import Significance, paired_bootstrap
from mtkit.study.by_length import lines_by_length, names
from mtkit.study.config import StudyConfig
from mtkit.study.load import Study
from mtkit.study.runs import Outcome, State, StudyRun, outcome
from mtkit.text.lines import read_lines


@dataclass(frozen=True)
class Spread:
    """A figure over the seeds: its mean, and the standard deviation of a sample, None for one seed alone."""

    values: list[float]

    @property
    def mean(self) -> float:
        """Of all seeds that finished."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """With n - 1 in the denominator."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Row:
    """One variant.

    Attributes:
        p_values: by seed, against the baseline's run of that seed.
    """

    variant: str
    parameters: int | None
    outcomes: Sequence[Outcome]
    figures: Mapping[str, Spread]
    p_values: Mapping[int, float]

    def count(self, state: State) -> int:
        """How many of its runs have come so far."""
        return sum(one.state == state for one in self.outcomes)


@dataclass(frozen=True)
class Results:
    """All variants in the order of the file.

    Attributes:
        signature: of the test of significance; empty if there was nothing to test.
        lines_by_length: how many lines of the test set each group of sentences has.
        reference_repetition: to compare that of translations with, where the study looks at it.
    """

    study: Study
    rows: Sequence[Row]
    signature: str
    lines_by_length: Mapping[str, int]
    reference_repetition: float | None

    def failures(self) -> list[str]:
        """A line for each run that failed."""
        found = (one for row in self.rows for one in row.outcomes if one.state == State.failed)
        return [f"{one.run.label}: {one.reason}".partition("\n")[0] for one in found]


def figures_of(config: StudyConfig) -> list[str]:
    """The names of the figures of a study, in the order of the table."""
    groups = [f"bleu {name}" for name in names(config.by_length)] if config.by_length else []
    exposure = ["free_running_loss", "repetition"] if config.exposure_bias else []
    return ["bleu", *groups, "loss", *exposure, "tokens_per_second", "lines_per_second"]


def collect(study: Study, runs: Sequence[StudyRun]) -> Results:
    """Read what the runs have left and compare it.

    Raises:
        DataError, MissingInputError: as `outcome`.
    """
    outcomes = [outcome(run, study.config) for run in runs]
    tests = {seed: _test(study, [one for one in outcomes if one.run.seed == seed]) for seed in study.config.seeds}
    rows = []
    for variant in study.recipes:
        own = [one for one in outcomes if one.run.variant == variant]
        values = {name: [one.figures[name] for one in own if name in one.figures] for name in figures_of(study.config)}
        rows.append(
            Row(
                variant,
                next((one.parameters for one in own if one.parameters is not None), None),
                own,
                {name: Spread(found) for name, found in values.items() if found},
                {seed: test.p_values[variant] for seed, test in tests.items() if variant in test.p_values},
            )
        )
    signature = next((test.signature for test in tests.values() if test.signature), "")
    repetition = repetition_rate(_reference(study)) if study.config.exposure_bias else None
    return Results(study, rows, signature, _lines_by_length(study), repetition)


def _lines_by_length(study: Study) -> dict[str, int]:
    if not study.config.by_length:
        return {}
    srcs = list(read_lines(study.recipes[study.baseline].corpus.test[study.test].src))
    return {name: len(places) for name, places in lines_by_length(srcs, study.config.by_length).items()}


def _reference(study: Study) -> list[str]:
    return list(read_lines(study.recipes[study.baseline].corpus.test[study.test].tgt))


def _test(study: Study, outcomes: Sequence[Outcome]) -> Significance:
    """The finished runs of one seed against the baseline's."""
    hyps = {one.run.variant: one.hyps for one in outcomes if one.state == State.finished}
    baseline = hyps.pop(study.baseline, None)
    if baseline is None or not hyps:
        return Significance({}, "")
    recipe = study.recipes[study.baseline]
    tokenize = recipe.evaluation.segmentation(recipe.corpus.tgt_lang)
    return paired_bootstrap(baseline, hyps, [_reference(study)], tokenize=tokenize)
