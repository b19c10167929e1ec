"""Test of a claim: its trainings, the values of both systems of each comparison, and its result."""

from __future__ import annotations

import base64
import datetime
import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU, BLEUScore

from mtkit.corpus.config import MonolingualFile, training_text
from mtkit.errors import DataError
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer, choose_tokenizer
from mtkit.evaluation.word_statistics import rare_word_f1, repetition_rate, word_counts
from mtkit.evidence.claim import CheckConfig, Claim
from mtkit.evidence.records import Records, lines_per_second, positional_head, seconds_to_bleu
from mtkit.evidence.results import CheckResult, ClaimResult
from mtkit.evidence.system import hyps_of_system
from mtkit.io.lock import RunLock
from mtkit.study.jobs import DeviceSlot, prepare_runs, run_jobs
from mtkit.study.run import trials, with_chosen_rates
from mtkit.study.runs import StudyRun, free_running_loss, lines_by_length, runs_of
from mtkit.text.lines import read_lines
from mtkit.training.monitoring.log import Display


class Measurements:
    """Values of all systems of a claim, from the records of its trainings, or else from their run folders.

    Args:
        records: of trainings; what is measured is added to them.
    """

    def __init__(self, claim: Claim, folder: Path, records: Records) -> None:
        self.claim, self.records = claim, records
        self.all_runs = runs_of(with_chosen_rates(claim.study, folder, records.loss), folder)
        self.runs = [run for run in self.all_runs if records.find(run) or run.is_finished()]
        recipe = next(iter(claim.study.recipes.values()))
        self.tests = [recipe.corpus.test[name] for name in claim.study.tests]
        self.srcs = [line for files in self.tests for line in read_lines(files.src)]
        self.refs = [line for files in self.tests for line in read_lines(files.tgt)]
        self.tokenizer = choose_tokenizer(
            self.refs, recipe.corpus.language_of_target(self.tests[0]), recipe.evaluation.tokenize
        ).name

    @cached_property
    def training_words(self) -> Counter[str]:
        """Occurrences of each target word in the parallel training text."""
        corpora = next(iter(self.claim.study.recipes.values())).corpus.train
        return word_counts(
            line
            for files in corpora
            if not isinstance(files, MonolingualFile)
            for line in read_lines(training_text(files)[1])
        )

    def runs_of_system(self, system: str) -> list[StudyRun]:
        """Runs with measurements that a system uses."""
        return [run for run in self.runs if run.variant == self.claim.config.variant_of(system)]

    def is_measured(self, run: StudyRun) -> bool:
        """Return whether the record of a run has all that the claim asks for."""
        record = self.records.find(run)
        for check in self.claim.config.checks:
            for system in (check.of, check.against):
                if self.claim.config.variant_of(system) != run.variant:
                    continue
                known = () if record is None else (record.statistics if check.metric == "bleu" else record.values)
                if (self._changes(system) if check.metric == "bleu" else self._key(system, check)) not in known:
                    return False
        return True

    def measure(self, check: CheckConfig) -> CheckResult:
        """Values of both systems for each seed.

        Raises:
            DataError: a system has no finished run, or a run has no such value.
        """
        for system in (check.of, check.against):
            if not self.runs_of_system(system):
                raise DataError(f"{system}: no finished run; run mtkit reproduce first")
        paired = self.claim.config.is_paired(check)
        if check.metric != "bleu":
            return CheckResult(check, self.values(check.of, check), self.values(check.against, check), 0.0, paired)
        of, against = self.statistics(check.of), self.statistics(check.against)
        everything = np.ones((1, len(self.refs)))
        selections = self._selections(check)
        first, second = (
            dict(zip(sorted(each), bleu_by_seed(each, everything, selections)[0].tolist(), strict=True))
            for each in (of, against)
        )
        error = 0.0 if check.ratio else sentence_error(of, against, selections)
        return CheckResult(check, first, second, error, paired)

    def values(self, system: str, check: CheckConfig) -> dict[int, float]:
        """Value of a metric for each seed.

        Raises:
            DataError: a run has no such value.
        """
        key = self._key(system, check)
        return {
            run.seed: self.records.value(run, key, partial(self._value, run, system, check))
            for run in self.runs_of_system(system)
        }

    def statistics(self, system: str) -> Mapping[int, Floats]:
        """BLEU statistics of each seed's translations, [L, 10]."""
        return {
            run.seed: unpack(self.records.statistics(run, self._changes(system), partial(self._packed, run, system)))
            for run in self.runs_of_system(system)
        }

    def _packed(self, run: StudyRun, system: str) -> str:
        return pack(bleu_statistics(self.hyps(run, system), self.refs, tokenize=self.tokenizer))

    def hyps(self, run: StudyRun, system: str) -> list[str]:
        """Translations of the test sets: those of the run, or with the settings of the system, kept beside the run."""
        config = self.claim.config.systems.get(system)
        paths = [
            run.folder.hyps(name) if config is None else hyps_of_system(run, config, name)
            for name in self.claim.study.tests
        ]
        return [line for path in paths for line in read_lines(path)]

    def _changes(self, system: str) -> str:
        """The changes of a system, as a key of records; empty for a variant."""
        config = self.claim.config.systems.get(system)
        return "" if config is None else config.description()

    def _key(self, system: str, check: CheckConfig) -> str:
        goal = "" if check.goal is None else f"{check.goal:g}"
        return " ".join(filter(None, [check.metric, goal, self._changes(system)]))

    def _selections(self, check: CheckConfig) -> Selections:
        """Lines whose BLEU a check compares: by the number of words of the source, or long ones minus the others."""
        if check.longer_than is not None:
            _, long = lines_by_length(self.srcs, [check.longer_than]).values()
            is_long = np.isin(np.arange(len(self.refs)), long)
            return [(1.0, is_long), (-1.0, ~is_long)]
        least, largest = (0, math.inf) if check.words is None else check.words
        return [(1.0, np.array([least <= len(src.split()) <= largest for src in self.srcs], dtype=np.bool_))]

    def _value(self, run: StudyRun, system: str, check: CheckConfig) -> float:
        match check.metric:
            case "repetition":
                return repetition_rate(self.hyps(run, system))
            case "rare_words":
                return rare_word_f1(self.hyps(run, system), self.refs, self.training_words)
            case "unseen_words":
                return rare_word_f1(self.hyps(run, system), self.refs, self.training_words, max_count=0)
            case "free_running_gap":
                return free_running_loss(run.folder) - self.records.of(run).values["loss"]
            case "positional_head":
                return positional_head(run)
            case "seconds_to_bleu":
                return seconds_to_bleu(run, check.goal or 0.0)
            case "lines_per_second":
                return lines_per_second(run, self.srcs)
            case _:
                raise DataError(f"{run.label}: the log has no {check.metric}; train again with this version of mtkit")


RUNS = Path("runs") / "evidence"  # of all claims, in the current directory; claims share the runs of a study


def study_folder(claim: Claim, run_dir: Path | None) -> Path:
    """Folder of the runs of a claim's study."""
    return (run_dir if run_dir is not None else RUNS).resolve() / claim.study.config.name


def train_models(claim: Claim, folder: Path, records: Records, slots: Sequence[DeviceSlot], display: Display) -> None:
    """Train and score the models of a claim that have no record; other claims of the same study use them too.

    First the trials of learning rates, then the seeds of each variant with its rate. A record is written as soon as a
    training ends. A trial that failed is not repeated: its learning rate is too high.

    Raises:
        MtkitError: a run cannot be prepared or ended with another error than a failed training.
    """

    def train(runs: Sequence[StudyRun], is_wanted: Callable[[StudyRun], bool]) -> None:
        wanted = [run for run in runs if not run.is_finished() and is_wanted(run)]
        required = [each for run in wanted for each in run.required if not each.is_finished()]
        todo = list({run.folder.path: run for run in [*required, *wanted]}.values())  # each once
        prepare_runs(todo, fresh=False, display=display)
        run_jobs(todo, slots, display, finished=records.of)

    with RunLock(folder):
        tried = trials(claim.study, folder)
        train(tried, lambda run: run.variant in claim.study.config.learning_rates and records.loss(run) is None)
        measurements = Measurements(claim, folder, records)
        train(measurements.all_runs, lambda run: not measurements.is_measured(run))


def measure_claim(claim: Claim, folder: Path, records: Records) -> ClaimResult:
    """Compare the finished runs of a claim.

    Raises:
        DataError: a comparison has no finished runs, or a file is damaged.
    """
    measurements = Measurements(claim, folder, records)
    checks = [measurements.measure(check) for check in claim.config.checks]
    runs = [run for name in claim.config.system_names() for run in measurements.runs_of_system(name)]
    found = {run.folder.path: records.of(run) for run in runs}
    environment: dict[str, Any] = {}  # a list of values where those of the trainings differ
    for key in next(iter(found.values())).environment:
        values = [record.environment[key] for record in found.values()]
        distinct = [each for number, each in enumerate(values) if each not in values[:number]]
        environment[key] = distinct[0] if len(distinct) == 1 else distinct
    return ClaimResult(
        name=claim.name,
        study=claim.config.study,
        systems={name: asdict(each) for name, each in claim.config.systems.items()},
        overrides=[each for each in claim.overrides if not each.startswith("corpus.root=")],
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        environment=environment,
        seconds=sum(record.values.get("train_seconds", 0.0) for record in found.values()),
        runs=len(found),
        parameters={run.variant: int(found[run.folder.path].values["parameters"]) for run in runs},
        rates={run.variant: rates for run in runs if (rates := records.rates(run))},
        checks=checks,
    )


Floats = NDArray[np.float64]
Selections = Sequence[tuple[float, NDArray[np.bool_]]]  # signs and lines [L]: a sum of sign · (BLEU of these lines)

NUM_SAMPLES = 1000  # bootstrap samples; sacreBLEU's default
_ORDER = 4  # longest n-grams of BLEU


def bleu_statistics(hyps: Sequence[str], ref: Sequence[str], *, tokenize: SacrebleuTokenizer) -> Floats:
    """Sufficient statistics of BLEU for each line, [L, 10]: 4 matches, 4 totals, lengths of hypothesis and reference.

    Their sum over lines gives the corpus BLEU (see bleu_of_statistics).
    """
    metric = BLEU(tokenize=tokenize, effective_order=True)
    rows = []
    for hyp, line in zip(hyps, ref, strict=True):
        score = metric.sentence_score(hyp, [line])
        if not isinstance(score, BLEUScore):
            raise TypeError("sacreBLEU returned another score than BLEU")
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return np.asarray(rows, dtype=np.float64).reshape(-1, 2 * _ORDER + 2)


def bleu_of_statistics(sums: Floats) -> Floats:
    """BLEU in percent of summed statistics [..., 10] -> [...]; Papineni et al. 2002, eq. 1 to 3.

    Matches of zero are smoothed as by sacreBLEU (`smooth:exp`): the k-th zero counts as 1 / 2^k.
    """
    matches, totals = sums[..., :_ORDER], sums[..., _ORDER : 2 * _ORDER]
    is_zero = matches == 0
    smoothed = np.where(is_zero, 0.5 ** np.cumsum(is_zero, axis=-1), matches)
    log_precision = np.log(smoothed / np.maximum(totals, 1)).mean(axis=-1)
    hyp_length, ref_length = sums[..., -2], sums[..., -1]
    log_brevity = np.minimum(0.0, 1 - ref_length / np.maximum(hyp_length, 1))
    has_score = (totals > 0).all(axis=-1) & (matches.sum(axis=-1) > 0)
    return np.where(has_score, 100 * np.exp(log_brevity + log_precision), 0.0)


def bleu_by_seed(statistics: Mapping[int, Floats], counts: Floats, selections: Selections) -> Floats:
    """Signed sum of BLEU over the selections for each seed, [R, N], where line l of sample r occurs counts[r, l] times.

    Args:
        statistics: [L, 10] of each seed.
        counts: [R, L].
    """
    columns = [
        sum(sign * bleu_of_statistics(counts[:, lines] @ statistics[seed][lines]) for sign, lines in selections)
        for seed in sorted(statistics)
    ]
    return np.stack(columns, axis=-1)


def sentence_error(
    of: Mapping[int, Floats],
    against: Mapping[int, Floats],
    selections: Selections,
) -> float:
    """Standard error of the mean difference of two systems due to the test lines, by the bootstrap.

    All seeds and both systems share the lines of a sample.
    """
    lines = len(next(iter(of.values())))
    counts = np.random.default_rng(12345).multinomial(lines, np.full(lines, 1 / lines), size=NUM_SAMPLES)
    means = [bleu_by_seed(each, counts.astype(np.float64), selections).mean(axis=-1) for each in (of, against)]
    return float((means[0] - means[1]).std(ddof=1))


def pack(statistics: Floats) -> str:
    """Statistics [L, 10] as text: matches and lengths, compressed; the totals follow from the length."""
    columns = statistics[:, [*range(_ORDER), -2, -1]].astype("<u2").T  # [6, L]
    return base64.b85encode(zlib.compress(columns.tobytes(), 9)).decode()


def unpack(text: str) -> Floats:
    """Statistics [L, 10] of a packed text.

    Raises:
        ValueError: the text is damaged.
    """
    try:
        columns = np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype="<u2").reshape(6, -1)
    except zlib.error as error:
        raise ValueError(f"damaged statistics: {error}") from error
    matches, lengths = columns[:_ORDER].T.astype(np.float64), columns[_ORDER:].T.astype(np.float64)
    totals = np.maximum(lengths[:, :1] - np.arange(_ORDER), 0)  # a hypothesis of n words has n - k + 1 k-grams
    return np.concatenate([matches, totals, lengths], axis=-1)
