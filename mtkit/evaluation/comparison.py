"""Several systems on one test set: scores with intervals, paired tests, groups of segments, and tables of them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.display import Table, count_of
from mtkit.errors import DataError
from mtkit.evaluation.config import (
    DEFAULT_METRICS,
    METRICS,
    REPORTED,
    MetricName,
    ReportOptions,
    format_score,
    heading_of,
    key_of,
)
from mtkit.evaluation.metrics import ExternalMetric, Metric, choose_metrics
from mtkit.evaluation.ngrams import no_garbage_collection
from mtkit.evaluation.plausibility import implausible_inputs
from mtkit.evaluation.resampling import (
    EXACT_LINES,
    NUM_SAMPLES,
    NUM_TRIALS,
    SEED,
    SegmentStatistics,
    bootstrap_scores,
    interval,
    paired_bootstrap_p_value,
    randomisation_p_value,
)
from mtkit.evaluation.score import Interval, Score, Scores, check_counts, sampled_warnings
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer, TokenizerChoice, choose_tokenizer

LENGTH_LIMITS = (10, 20, 30, 40, 50)  # words, or characters of a script without spaces; the last group has no limit
MIN_RESAMPLED = 30  # lines; the samples of fewer are too alike: those of one line are equal, with the lowest p-value


@dataclass(frozen=True)
class Comparison:
    """The result of evaluating systems.

    Attributes:
        scores: of each system, in their order.
        p_values: by test (`bootstrap`, `randomisation`), metric and system, against the first system.
        tests: sentence about each test: its number of samples and seed.
        groups: scores by group of segments, such as `length 10-19` or the name of a document; empty without groups.
        segments: statistics of each line, by metric and system.
        tokenizer: that of BLEU.
    """

    scores: dict[str, Scores]
    p_values: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    tests: tuple[str, ...] = ()
    groups: dict[str, GroupScores] = field(default_factory=dict)
    segments: Mapping[MetricName, Mapping[str, SegmentStatistics]] = field(default_factory=dict, repr=False)
    tokenizer: TokenizerChoice = field(default_factory=lambda: TokenizerChoice("13a", None))

    def losses(self) -> Iterator[tuple[str, str, float, float]]:
        """System, metric, how much worse than the first system it is in percent, and p (randomisation)."""
        first, *others = self.scores
        for system, (metric, score) in itertools.product(others, self.scores[first].values.items()):
            loss = score.value - self.scores[system].values[metric].value
            loss = loss if score.higher_is_better else -loss
            p_value = self.p_values["randomisation"][metric][system]
            yield system, metric, loss, p_value

    def line_scores(self) -> dict[str, dict[str, list[float]]]:
        """Scores of each line by system and metric, in percent with two digits."""
        return {
            system: {
                key_of(metric): [
                    round(score, 2 if metric in METRICS else 6) for score in of_systems[system].line_scores()
                ]
                for metric, of_systems in self.segments.items()
            }
            for system in self.scores
        }

    def best(self) -> dict[str, set[str]]:
        """The systems with the best score of each metric; none without competition."""
        first = next(iter(self.scores.values()))
        if len(self.scores) < 2:
            return {}
        best: dict[str, set[str]] = {}
        for metric in first.values:
            values = {name: scores.values[metric].value for name, scores in self.scores.items()}
            value = max(values.values()) if first.values[metric].higher_is_better else min(values.values())
            best[metric] = {name for name in values if values[name] == value}
        return best

    def as_dict(self) -> dict[str, Any]:
        """Scores by system; p-values and groups if there are any."""
        report: dict[str, Any] = {name: scores.as_dict() for name, scores in self.scores.items()}
        for test, metrics in self.p_values.items():
            for metric, systems in metrics.items():
                for system, p_value in systems.items():
                    report[system][f"{metric}_p_{test}"] = p_value
        for name, group in self.groups.items():
            for system in report:
                report[system].setdefault("groups", {})[name] = {
                    "lines": group.lines,
                    **{metric: values[system] for metric, values in group.scores.items()},
                }
        return report


@dataclass(frozen=True)
class GroupScores:
    """Scores of a group of segments: a range of lengths, or a document.

    Attributes:
        lines: number of segments.
        scores: by metric and system, in percent.
    """

    lines: int
    scores: dict[str, dict[str, float]]


@no_garbage_collection()
def compare(
    hyps: Mapping[str, Sequence[str]],
    refs: Sequence[Sequence[str]],
    metrics: Sequence[MetricName] = DEFAULT_METRICS,
    *,
    tgt_lang: str | None = None,
    tokenize: SacrebleuTokenizer = "auto",
    lowercase: bool = False,
    src: Sequence[str] | None = None,
    intervals: bool = True,
    groups: Mapping[str, Sequence[int]] | None = None,
    external: Sequence[ExternalMetric] = (),
) -> Comparison:
    """Score systems against the same references.

    Args:
        hyps: translations of each system; the first is the baseline of the paired tests.
        refs: one or more references, each with the same number of lines.
        metrics: the metrics to compute.
        tgt_lang: as for `score`.
        tokenize: as for `score`.
        lowercase: as for `score`.
        src: as for `score`.
        intervals: compute 95% intervals, and for several systems the paired tests.
        groups: segments of each group to score separately, such as those of `by_length` and `by_document`.
        external: metrics of other programs, with the numbers of the systems in their order.

    Raises:
        DataError: as `score`, or no metric suits the script of the references.
        MissingExtraError: as `score`.
    """
    for lines in hyps.values():
        check_counts(len(lines), [len(ref) for ref in refs])
    choice = choose_metrics(refs, metrics, tgt_lang=tgt_lang, tokenize=tokenize, lowercase=lowercase)
    chosen: dict[str, Metric] = {**choice.metrics, **{each.name: each for each in external}}
    is_better_higher = {name: METRICS[name].higher_is_better for name in choice.metrics}
    is_better_higher |= {each.name: each.higher_is_better for each in external}
    if not chosen:
        raise DataError("; ".join(choice.notes))
    statistics: dict[MetricName, dict[str, SegmentStatistics]] = {}
    for name, metric in chosen.items():
        of_systems = (SegmentStatistics(metric, values) for values in metric.statistics([*hyps.values()], refs))
        statistics[name] = dict(zip(hyps, of_systems, strict=True))
    samples: dict[tuple[MetricName, str], NDArray[np.float64]] = {}
    if intervals:
        keys = [(name, system) for name, systems in statistics.items() for system in systems]
        drawn = bootstrap_scores([statistics[name][system] for name, system in keys])
        samples = dict(zip(keys, drawn, strict=True))
    scores: dict[str, Scores] = {}
    for system, lines in hyps.items():
        values: dict[MetricName, Score] = {}
        for name, metric in chosen.items():
            signature = metric.signature(NUM_SAMPLES, SEED) if intervals else metric.signature()
            bounds = Interval(*interval(samples[name, system])) if intervals else None
            values[name] = Score(statistics[name][system].score(), signature, bounds, is_better_higher[name])
        notes = [*choice.notes, *implausible_inputs(lines, refs, src), *sampled_warnings(lines, refs, choice)]
        if intervals and len(lines) < MIN_RESAMPLED:
            count = count_of(len(lines), "line")
            notes.append(f"{count}: too few for intervals and p-values; use more")
        if (copied := next((earlier for earlier in scores if list(hyps[earlier]) == list(lines)), None)) is not None:
            notes.append(f"the translations are equal to those of {copied}, line by line; are both files right?")
        scores[system] = Scores.of(values, notes)
    scored_groups: dict[str, GroupScores] = {}
    for group, indices in (groups or {}).items():
        segments = np.unique(np.asarray(indices, dtype=np.int64))
        of_group = {
            key_of(name): {system: each.score(segments) for system, each in systems.items()}
            for name, systems in statistics.items()
        }
        scored_groups[group] = GroupScores(len(indices), of_group)
    if not intervals or len(hyps) < 2:
        return Comparison(scores, groups=scored_groups, segments=statistics, tokenizer=choice.tokenizer)
    tests = (
        f"bootstrap: paired, {NUM_SAMPLES:,} samples, seed {SEED}",
        f"randomisation: paired, all exchanges of at most {EXACT_LINES} differing lines or {NUM_TRIALS:,} random ones, "
        f"seed {SEED}",
    )
    return Comparison(scores, _p_values(statistics, samples), tests, scored_groups, statistics, choice.tokenizer)


def _p_values(
    statistics: Mapping[MetricName, Mapping[str, SegmentStatistics]],
    samples: Mapping[tuple[MetricName, str], NDArray[np.float64]],
) -> dict[str, dict[str, dict[str, float]]]:
    baseline, *others = next(iter(statistics.values()))
    by_test: dict[str, dict[str, dict[str, float]]] = {"bootstrap": {}, "randomisation": {}}
    for (name, each), system in itertools.product(statistics.items(), others):
        key, first, other = key_of(name), each[baseline], each[system]
        by_test["randomisation"].setdefault(key, {})[system] = randomisation_p_value(first, other)
        by_test["bootstrap"].setdefault(key, {})[system] = paired_bootstrap_p_value(
            samples[name, baseline], samples[name, system], first.score() - other.score()
        )
    return by_test


def segment_groups(options: ReportOptions, ref: Sequence[str], src: Sequence[str] | None) -> dict[str, list[int]]:
    """The segments of each group that a report scores separately; no groups unless the options request them.

    Args:
        ref: the first reference.
        src: the source, whose lengths count; None: those of the reference.

    Raises:
        DataError: as `by_document`.
    """
    groups: dict[str, list[int]] = {}
    if options.by_length:
        measured = ref if src is None else src
        groups |= by_length(measured, characters=choose_tokenizer(measured, None).is_unspaced)
    if options.documents is not None:
        groups |= by_document(options.documents, len(ref), options.documents_file)
    return groups


def by_length(lines: Sequence[str], *, characters: bool) -> dict[str, list[int]]:
    """Group segments by their length in words, or in characters.

    Args:
        lines: the source, or the reference.
        characters: count characters without spaces, for scripts that do not separate words.
    """
    groups: dict[str, list[int]] = {}
    limits = (0, *LENGTH_LIMITS)
    names = [f"length {low}-{high - 1}" for low, high in itertools.pairwise(limits)]
    names.append(f"length {limits[-1]}-")
    if characters:
        names = [f"characters {name.removeprefix('length ')}" for name in names]
    for index, line in enumerate(lines):
        length = len("".join(line.split())) if characters else len(line.split())
        group = int(np.searchsorted(LENGTH_LIMITS, length, side="right"))
        groups.setdefault(names[group], []).append(index)
    return {name: groups[name] for name in names if name in groups}


def by_document(doc_ids: Sequence[str], num_lines: int, name: str) -> dict[str, list[int]]:
    """Group segments by document.

    Args:
        doc_ids: the document of each line.
        num_lines: number of lines of the test set.

    Raises:
        DataError: the numbers of lines differ, or a name is blank.
    """
    if len(doc_ids) != num_lines:
        raise DataError(
            f"{name} has {count_of(len(doc_ids), 'line')}, but the test set {num_lines:,}; write one name per line"
        )
    groups: dict[str, list[int]] = {}
    for index, doc_id in enumerate(doc_ids):
        if not doc_id.strip():
            raise DataError(f"{name}:{index + 1}: blank; write the name of a document on each line")
        groups.setdefault(doc_id, []).append(index)
    return groups


def score_table(
    rows: Mapping[str, Scores],
    *,
    label: str = "system",
    p_values: Mapping[str, Mapping[str, Mapping[str, float]]] = MappingProxyType({}),
    best: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Table:
    """One row for each metric and system or test set.

    Args:
        p_values: by test, metric and system (see Comparison); one more column for each test.
        best: the best systems of each metric, whose scores are marked with a star.
    """
    has_intervals = any(score.interval for scores in rows.values() for score in scores.values.values())
    cells = []
    keys = _in_order(key for scores in rows.values() for key in scores.values)
    for key, (system, scores) in itertools.product(keys, rows.items()):
        if (score := scores.values.get(key)) is None:
            continue
        star = "* " if system in best.get(key, ()) else ""
        row = [heading_of(key), system, f"{star}{format_score(key, score.value)}"]
        if has_intervals:
            row.append(f"± {format_score(key, score.interval.margin)}" if score.interval else "")  # around the score
        p_of_tests = (p_values[test].get(key, {}).get(system) for test in p_values)
        cells.append([*row, *("" if p is None else f"{p:.4f}" for p in p_of_tests)])
    headings = ["metric", label, "score", *(["95% interval"] if has_intervals else [])]
    return Table([*headings, *(f"p ({test})" for test in p_values)], cells, text=("metric", label))


def _in_order(keys: Iterable[str]) -> list[str]:
    """Keys of scores once, in the order of reports; external metrics last."""
    found = dict.fromkeys(keys)
    return [*(key for key in REPORTED if key in found), *(key for key in found if key not in REPORTED)]


def group_table(groups: Mapping[str, GroupScores], *, title: str | None = None) -> Table:
    """One row for each group of segments, one column for each metric and system."""
    first = next(iter(groups.values()))
    columns = [(metric, system) for metric in _in_order(first.scores) for system in first.scores[metric]]
    is_single = len({system for _, system in columns}) == 1
    names = [heading_of(metric) if is_single else f"{heading_of(metric)} {system}" for metric, system in columns]
    rows = [
        [name, f"{group.lines:,}", *(format_score(metric, group.scores[metric][system]) for metric, system in columns)]
        for name, group in groups.items()
    ]
    return Table(["group", "lines", *names], rows, text=("group",), title=title)


def signature_lines(rows: Mapping[str, Scores]) -> list[str]:
    """Each distinct signature once, after the name of its metric."""
    lines = [
        f"{heading_of(name)}: {score.signature}" for scores in rows.values() for name, score in scores.values.items()
    ]
    return list(dict.fromkeys(lines))
