"""Report of runs: what was trained on what, curves, scores with tests, reasons of differences, and lines."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.analysis.explanation import Explainer
from mtkit.display import Table, count_of, format_duration, in_current_folder
from mtkit.errors import DataError, MissingInputError, UsageError
from mtkit.evaluation.comparison import Comparison, compare, score_table, segment_groups
from mtkit.evaluation.config import REPORTED, MetricName, ReportOptions
from mtkit.evaluation.reasons import Reasons, reasons_of
from mtkit.io.files import write_text
from mtkit.pipeline.open_run import Run
from mtkit.pipeline.run_folder import RunFolder, recipe_text
from mtkit.plot.comparison import comparison_blocks
from mtkit.plot.curves import LearningCurves, curve_blocks, mean_curves, read_curves
from mtkit.plot.figure import distinct_names
from mtkit.plot.page import MAX_PAGE, heading, page, paragraph, preformatted, table, within
from mtkit.recipe.paths import to_plain
from mtkit.recipe.sections import Recipe, flatten
from mtkit.text.lines import read_lines
from mtkit.training.monitoring.log import logged_events

# keys in which runs of one system differ, and those that say where a value comes from
_OF_SEED = ("name", "training.seed")
DIFFERENCES = "Recipes differ in"
_DATA_EVENTS = ("tokenizer", "train.", "valid", "lexicon")


@dataclass(frozen=True)
class ReportedRun:
    """A run folder as far as it has come: without log, curves and events are empty, without scores `record`."""

    name: str
    folder: RunFolder
    recipe: Recipe
    record: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]

    @property
    def system(self) -> tuple[tuple[str, str], ...]:
        """The recipe without its seed, which the runs of one system have in common."""
        values = flatten(_numbered(to_plain(self.recipe)))
        return tuple((key, str(value)) for key, value in values if key not in _OF_SEED and not key.startswith("chosen"))

    def row(self) -> list[str]:
        """Cells of the table of runs."""
        begin: Mapping[str, Any] = next((each for each in reversed(self.events) if each["event"] == "begin"), {})
        train, updates = self.record.get("train", {}), [each["update"] for each in self.events if each.get("update")]
        numerics = begin.get("numerics", {})
        done, seconds = train.get("updates", max(updates, default=0)), train.get("seconds")
        return [
            self.name,
            str(self.recipe.training.seed),
            f"{begin['parameters']:,}" if "parameters" in begin else "",
            f"{done:,}{'' if train else ' (not finished)'}",
            f"{train['best_update']:,}" if train.get("best_update") else "",
            "" if seconds is None else format_duration(seconds),
            f"{train['tokens_per_second']:,.0f}" if train else "",
            " ".join(
                str(each) for each in (begin.get("precision", ""), numerics.get("device", ""), numerics.get("cpu", ""))
            ),
            str(numerics.get("torch_version", "")),
        ]


@dataclass(frozen=True)
class ScoredTest:
    """The runs that have translated a test set, compared."""

    name: str
    comparison: Comparison
    reasons: Sequence[Reasons]
    hyps: Mapping[str, Sequence[str]]
    ref: Sequence[str]
    src: Sequence[str]


@dataclass(frozen=True)
class RunReport:
    """Runs, and the test sets that they have translated."""

    runs: Sequence[ReportedRun]
    tests: Sequence[ScoredTest]

    def tables(self) -> list[Table]:
        """Runs, keys in which their recipes differ, scores."""
        headings = ["run", "seed", "parameters", "updates", "best update", "time", "tokens/s", "computed", "torch"]
        tables = [Table(headings, [run.row() for run in self.runs], text=("run", "computed"), title="Runs")]
        systems = self.systems()
        values = [dict(system) for system in systems]
        keys = dict.fromkeys(key for each in values for key in each if len({v.get(key) for v in values}) > 1)
        names = [_name_of([run.name for run in of]) for of in systems.values()]
        if keys:
            rows = [[key, *(each.get(key, "") for each in values)] for key in keys]
            tables.append(Table(["key", *names], rows, text=("key", *names), title=DIFFERENCES))
        for test in self.tests:
            result = test.comparison
            scores = score_table(result.scores, label="run", p_values=result.p_values, best=result.best())
            tables.append(Table(scores.headings, scores.rows, text=("metric", "run"), title=f"Test set {test.name}"))
            if rows := [*self._seeds(test)]:
                headings = ["metric", "runs", "mean", "standard deviation"]
                tables.append(Table(headings, rows, text=("metric", "runs"), title=f"Seeds on {test.name}"))
        return tables

    def systems(self) -> dict[tuple[tuple[str, str], ...], list[ReportedRun]]:
        """Runs that differ in nothing but their seed."""
        systems: dict[tuple[tuple[str, str], ...], list[ReportedRun]] = {}
        for run in self.runs:
            systems.setdefault(run.system, []).append(run)
        return systems

    def _seeds(self, test: ScoredTest) -> Iterator[list[str]]:
        """Mean and standard deviation (n - 1) of each metric over the seeds of each system that has several."""
        scores = test.comparison.scores
        for key, runs in itertools.product(next(iter(scores.values())).values, self.systems().values()):
            values = [scores[run.name].values[key].value for run in runs if run.name in scores]
            if len(values) > 1:
                name = _name_of([run.name for run in runs])
                yield [
                    REPORTED[key].heading,
                    name,
                    f"{statistics.fmean(values):.2f}",
                    f"{statistics.stdev(values):.2f}",
                ]

    def as_dict(self) -> dict[str, Any]:
        """Runs and scores, for JSON."""
        return {
            "runs": {run.name: dict(run.record) for run in self.runs},
            "test": {test.name: test.comparison.as_dict() for test in self.tests},
            "reasons": {test.name: [each.as_dict() for each in test.reasons] for test in self.tests},
        }

    def html(self, more: Iterable[str] = (), *, reload_after: int | None = None) -> str:
        """The report as a page, with `more` blocks after those of the test sets; for `reload_after` see `page`."""
        return page(", ".join(run.name for run in self.runs), self._blocks(more), reload_after=reload_after)

    def _blocks(self, more: Iterable[str]) -> Iterator[str]:
        first, *others = self.tables()
        yield table(first)
        yield from (table(each) for each in others if each.title == DIFFERENCES)
        yield from self._curves()
        for test in self.tests:
            yield heading(f"Test set {test.name}")
            yield from (table(each) for each in others if each.title == f"Seeds on {test.name}")
            yield from comparison_blocks(test.comparison, test.reasons, test.hyps, [test.ref], test.src)
        yield from more
        yield heading("Data")
        stages = {  # the last result of each: a damaged one is made again
            (run.name, str(each["event"])): str(each.get("result", ""))
            for run in self.runs
            for each in run.events
            if str(each["event"]).startswith(_DATA_EVENTS)
        }
        rows = [[*names, result] for names, result in stages.items()]
        yield table(Table(["run", "stage", "result"], rows, text=("run", "stage", "result")))
        yield heading(f"Recipe of {self.runs[0].name}")
        yield preformatted(recipe_text(to_plain(self.runs[0].recipe)), "recipe")

    def _curves(self) -> Iterator[str]:
        """Loss and BLEU over updates: a line for each run, or for a system of several seeds their mean and range."""
        shown = list[LearningCurves]()
        for runs in self.systems().values():
            of_runs = list[LearningCurves]()
            for run in runs:
                try:
                    of_runs.append(read_curves(run.folder.log, run.name))
                except (DataError, MissingInputError) as error:
                    yield paragraph(in_current_folder(str(error)), soft=True)
            if of_runs:
                name = _name_of([each.label for each in of_runs])
                shown.append(of_runs[0] if len(of_runs) == 1 else mean_curves(name, of_runs))
        yield from curve_blocks(shown)


def _name_of(names: Sequence[str]) -> str:
    """The name of a system, from those of its runs."""
    return names[0] if len(names) == 1 else f"{names[0]} and {count_of(len(names) - 1, 'more seed')}"


def _numbered(plain: Any) -> Any:
    """A recipe's values with mappings by number for lists."""
    if isinstance(plain, list):
        return {str(number): _numbered(value) for number, value in enumerate(plain)}
    return {key: _numbered(value) for key, value in plain.items()} if isinstance(plain, dict) else plain


def report_runs(folders: Sequence[Path], metrics: Sequence[MetricName]) -> RunReport:
    """Read runs, and compare their translations of each test set with those of the first run that has translated it.

    Raises:
        MissingInputError: a folder is no run folder.
        DataError, ReadWriteError: a file is damaged or cannot be read.
    """
    runs = []
    for name, path in zip(distinct_names(folders), folders, strict=True):
        folder = RunFolder(path)
        recipe = folder.load_recipe()
        events = logged_events(folder.log) if folder.log.is_file() else []
        runs.append(ReportedRun(name, folder, recipe, folder.read_report(), events))
    names = dict.fromkeys(test for run in runs for test in run.recipe.corpus.test)
    tests = (_score_test(name, runs, metrics) for name in names)
    return RunReport(runs, [each for each in tests if each is not None])


def _score_test(name: str, runs: Sequence[ReportedRun], metrics: Sequence[MetricName]) -> ScoredTest | None:
    """Compare the runs that have translated a test set; None for none."""
    translated = [run for run in runs if name in run.recipe.corpus.test and run.folder.hyps(name).is_file()]
    if not translated:
        return None
    recipe = translated[0].recipe
    files = recipe.corpus.test[name]
    ref, src = list(read_lines(files.tgt)), list(read_lines(files.src))
    hyps = {run.name: list(read_lines(run.folder.hyps(name))) for run in translated}
    for run in translated[1:]:
        if list(read_lines(run.recipe.corpus.test[name].tgt)) != ref:
            raise DataError(
                f"{run.folder.path}: its test set {name} has another reference than that of {translated[0].name}"
            )
    scoring = recipe.scoring
    result = compare(
        hyps,
        [ref],
        metrics,
        tgt_lang=recipe.corpus.language_of_target(files),
        tokenize=scoring.tokenize,
        lowercase=scoring.lowercase,
        src=src,
        groups=segment_groups(ReportOptions(by_length=True), ref, src),
    )
    return ScoredTest(name, result, reasons_of(result, hyps, [ref], src), hyps, ref, src)


REPORT = "report.html"  # of a run folder
EXPLAINED_LENGTHS = range(6, 11)  # words of the test sentence that a run's report explains


def write_report(run: Run) -> None:
    """Write the report of a run that has ended into its folder, with an explanation of a test sentence.

    What cannot be reported is said instead: the results of the run are complete without it.

    Raises:
        ReadWriteError: the report cannot be written.
    """
    try:
        blocks = list(_explained(run))
    except (DataError, UsageError) as error:  # a language model translates nothing
        blocks = [paragraph(str(error), soft=True)]
    try:
        write_text(run.folder.path / REPORT, report_runs([run.folder.path], ["bleu", "chrf"]).html(blocks))
    except (DataError, MissingInputError) as error:
        run.notify("report", str(error))


def _explained(run: Run) -> Iterator[str]:
    """An explanation of a test sentence of a readable length, else of the first that is not blank; none without one."""
    sentences = [(line, files) for files in run.recipe.corpus.test.values() for line in read_lines(files.src)]
    sentences.sort(key=lambda each: (len(each[0].split()) not in EXPLAINED_LENGTHS, not each[0].strip()))
    if sentences and sentences[0][0].strip():
        line, prefix = sentences[0]
        yield heading(line)
        yield from within(Explainer(run.folder.path, prefix=prefix).explain(line).blocks(), MAX_PAGE // 4)
