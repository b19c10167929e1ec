"""Results of a study: mean, standard deviation and significance of every metric, as a table in several forms."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtkit.display import Table, TableFormat
from mtkit.evaluation.comparison import Comparison, compare
from mtkit.evaluation.word_statistics import repetition_rate
from mtkit.study.load import Study, StudyConfig
from mtkit.study.runs import RunResult, RunState, StudyRun, group_names, lines_by_length, run_result
from mtkit.text.lines import read_lines

MIN_BLEU = 1.0  # below it a system does not translate, and a difference of two such systems means nothing
LEFT_ALIGNED = ("variant", "runs", "p")  # columns of text; the others hold numbers


@dataclass(frozen=True)
class MeanStd:
    """Values of a metric over the seeds, with mean and sample standard deviation."""

    values: list[float]

    @property
    def mean(self) -> float:
        """Mean over the finished runs."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Standard deviation with n - 1 in the denominator; None for one run."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class VariantRow:
    """Results of one variant.

    Attributes:
        parameters: number of parameters; None if no training has started.
    """

    variant: str
    parameters: int | None
    results: Sequence[RunResult]
    metrics: Mapping[str, MeanStd]
    p_values: Mapping[int, float]

    def count(self, state: RunState) -> int:
        """Number of runs in a state."""
        return sum(result.state == state for result in self.results)


@dataclass(frozen=True)
class StudyResults:
    """Results of all variants, in the order of the study file.

    Attributes:
        signature: of the significance test; empty if nothing was tested.
        lines_by_length: number of test lines in each length group.
        reference_repetition: repetition rate of the reference, for comparison; None unless the study measures it.
    """

    study: Study
    rows: Sequence[VariantRow]
    signature: str
    lines_by_length: Mapping[str, int]
    reference_repetition: float | None

    def failures(self) -> list[str]:
        """One line for each failed run."""
        failed = (result for row in self.rows for result in row.results if result.state == RunState.failed)
        return [f"{result.run.label}: {result.reason}".partition("\n")[0] for result in failed]


def metric_names(config: StudyConfig) -> list[str]:
    """Names of the metrics of a study, in the order of the table."""
    groups = [f"bleu {name}" for name in group_names(config.bleu_by_length)] if config.bleu_by_length else []
    exposure = ["free_running_loss", "repetition"] if config.exposure_bias else []
    return ["bleu", *groups, "loss", *exposure, "tokens_per_second", "lines_per_second"]


def compare_runs(study: Study, runs: Sequence[StudyRun]) -> StudyResults:
    """Read the results of the runs and compare the variants.

    Raises:
        DataError: a file of a run is corrupted.
        MissingInputError: the test set or a file of a run is missing.
    """
    results = [run_result(run, study.config) for run in runs]
    tests = {
        seed: _test_significance(study, [result for result in results if result.run.seed == seed])
        for seed in study.config.seeds
    }
    rows = [
        _row(study, variant, [result for result in results if result.run.variant == variant], tests)
        for variant in study.recipes
    ]
    signature = ""
    if (test := next(filter(None, tests.values()), None)) is not None:  # all have the same settings
        bleu = next(iter(test.scores.values())).values["bleu"]
        signature = f"{test.tests[0].removeprefix('bootstrap: paired, ')}; {bleu.signature}"
    repetition = repetition_rate(_reference(study)) if study.config.exposure_bias else None
    limits, counts = study.config.bleu_by_length, dict[str, int]()
    if limits:
        srcs = list(read_lines(study.recipes[study.baseline].corpus.test[study.test].src))
        counts = {name: len(indices) for name, indices in lines_by_length(srcs, limits).items()}
    return StudyResults(study, rows, signature, counts, repetition)


def _row(
    study: Study, variant: str, results: Sequence[RunResult], tests: Mapping[int, Comparison | None]
) -> VariantRow:
    names = metric_names(study.config)
    values = {name: [result.metrics[name] for result in results if name in result.metrics] for name in names}
    return VariantRow(
        variant,
        next((result.parameters for result in results if result.parameters is not None), None),
        results,
        {name: MeanStd(of_runs) for name, of_runs in values.items() if of_runs},
        {seed: p for seed, test in tests.items() if test and (p := test.p_values["bootstrap"]["bleu"].get(variant))},
    )


def _reference(study: Study) -> list[str]:
    return list(read_lines(study.recipes[study.baseline].corpus.test[study.test].tgt))


def _test_significance(study: Study, results: Sequence[RunResult]) -> Comparison | None:
    """Compare the finished runs of one seed with the baseline's run; None if either is missing."""
    hyps = {result.run.variant: result.hyps for result in results if result.state == RunState.finished}
    if study.baseline not in hyps or len(hyps) == 1:
        return None
    recipe, ref = study.recipes[study.baseline], _reference(study)
    lang = recipe.corpus.language_of_target(recipe.corpus.test[study.test])
    hyps = {study.baseline: hyps[study.baseline], **hyps}
    scoring = recipe.scoring
    return compare(hyps, [ref], ["bleu"], tgt_lang=lang, tokenize=scoring.tokenize, lowercase=scoring.lowercase)


@dataclass(frozen=True)
class ColumnFormat:
    """Heading and number format of a metric's column."""

    heading: str
    digits: int
    with_std: bool = True

    def format(self, metric: MeanStd | None) -> str:
        """Mean and standard deviation as text; empty for None."""
        if metric is None:
            return ""
        mean = f"{metric.mean:,.{self.digits}f}"
        if metric.std is None or not self.with_std:
            return mean
        return f"{mean} ± {metric.std:,.{self.digits}f}"


FORMATS = {
    "bleu": ColumnFormat("BLEU", 2),
    "loss": ColumnFormat("loss", 3),
    "free_running_loss": ColumnFormat("free-running loss", 3),
    "repetition": ColumnFormat("repetition %", 1),
    "tokens_per_second": ColumnFormat("tokens/s", 0, with_std=False),
    "lines_per_second": ColumnFormat("lines/s", 0, with_std=False),
}


def format_of(metric: str) -> ColumnFormat:
    """Column format of a metric; `bleu 1-10` is the BLEU of a length group."""
    return FORMATS[metric] if metric in FORMATS else ColumnFormat(metric.replace("bleu", "BLEU"), 1)


def cell_rows(results: StudyResults) -> list[list[str]]:
    """Cells of the table as text, one list for each variant."""
    return [_cells(row, results) for row in results.rows]


def _cells(row: VariantRow, results: StudyResults) -> list[str]:
    metrics = [format_of(name).format(row.metrics.get(name)) for name in metric_names(results.study.config)]
    parameters = "" if row.parameters is None else f"{row.parameters:,}"
    is_baseline = row.variant == results.study.baseline
    translating = _translating_seeds(row) | _translating_seeds(
        next(each for each in results.rows if each.variant == results.study.baseline)
    )
    shown = [f"{p:.3f}" if seed in translating else "-" for seed, p in row.p_values.items()]
    p_values = "baseline" if is_baseline else " ".join(shown)
    others = [f"{row.count(state)} {state}" for state in (RunState.failed, RunState.unfinished) if row.count(state)]
    counts = ", ".join([str(row.count(RunState.finished)), *others])  # `3`, or `1, 1 failed, 1 unfinished`
    return [row.variant, parameters, *metrics, p_values, counts]


def _translating_seeds(row: VariantRow) -> set[int]:
    """Seeds whose run translates at all."""
    return {result.run.seed for result in row.results if result.metrics.get("bleu", 0) >= MIN_BLEU}


def study_table(results: StudyResults) -> Table:
    """The table of all variants."""
    metrics = [format_of(metric).heading for metric in metric_names(results.study.config)]
    headings = ["variant", "parameters", *metrics, "p", "runs"]
    return Table(headings, cell_rows(results), text=LEFT_ALIGNED, title=results.study.config.name)


def notes(results: StudyResults) -> list[str]:
    """Definitions of the metrics, one line each, and the failed runs."""
    study = results.study
    seeds = ", ".join(str(seed) for seed in study.config.seeds)
    lines = [
        f"BLEU on {study.test}; mean ± standard deviation over the seeds {seeds}. Loss: nats per target token on the "
        "validation set, with teacher forcing, of the best checkpoint. tokens/s: training, both sides. lines/s: "
        "translation of the test set."
    ]
    if results.lines_by_length:
        groups = ", ".join(f"{count:,} of {name}" for name, count in results.lines_by_length.items())
        lines.append(f"BLEU by the number of source words; lines of the test set: {groups}.")
    if results.reference_repetition is not None:
        lines.append(
            "Free-running loss: nats per reference token when the decoder reads its own tokens. Repetition: word "
            f"bigrams that occurred before in the same line; reference: {results.reference_repetition:.1f} %."
        )
    if results.signature:
        lines.append(f"p: paired bootstrap against {study.baseline}, seed by seed; {results.signature}.")
    if any(value < MIN_BLEU for row in results.rows for value in row.metrics.get("bleu", MeanStd([])).values):
        lines.append(f"p of two systems below {MIN_BLEU:g} BLEU is not shown: neither translates.")
    return [*lines, *(f"failed: {failure}" for failure in results.failures())]


def markdown(results: StudyResults) -> str:
    """Table and notes as Markdown."""
    listed = [f"- {note}" for note in notes(results)]
    table = study_table(results).format(TableFormat.markdown)
    return "\n".join([f"# Study {results.study.config.name}", "", *table, "", *listed]) + "\n"


def as_csv(results: StudyResults) -> str:
    """Table as CSV: one line for each variant, numbers in full precision."""
    names, seeds = metric_names(results.study.config), results.study.config.seeds
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    columns = [f"{name} {statistic}" for name in names for statistic in ("mean", "std")]
    writer.writerow(["variant", "parameters", "finished", "failed", *columns, *(f"p seed {seed}" for seed in seeds)])
    for row in results.rows:
        metrics = [row.metrics.get(name) for name in names]
        pairs = [(None, None) if metric is None else (metric.mean, metric.std) for metric in metrics]
        counts = [row.count(RunState.finished), row.count(RunState.failed)]
        p_values = [row.p_values.get(seed) for seed in seeds]
        writer.writerow([row.variant, row.parameters, *counts, *(cell for pair in pairs for cell in pair), *p_values])
    return stream.getvalue()


def as_json(results: StudyResults) -> dict[str, Any]:
    """All results, run by run."""
    study = results.study
    variants = {
        row.variant: {
            "parameters": row.parameters,
            "metrics": {name: {"mean": metric.mean, "std": metric.std} for name, metric in row.metrics.items()},
            "p_values": {str(seed): p for seed, p in row.p_values.items()},
            "runs": {
                str(one.run.seed): {"state": one.state.value, "reason": one.reason, **one.metrics}
                for one in row.results
            },
        }
        for row in results.rows
    }
    return {
        "study": study.config.name,
        "test": study.test,
        "baseline": study.baseline,
        "seeds": study.config.seeds,
        "signature": results.signature,
        "lines_by_length": dict(results.lines_by_length),
        "variants": variants,
    }
