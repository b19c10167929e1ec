"""Records of trainings: what is measured of each, stored at once and small, so that claims need no model afterwards.

A record is the line `VARIANT-seed-N` of `trainings/STUDY.jsonl` in the folder of the results. A training with a record
is not repeated although its run folder is gone, unless a claim asks for what was not measured. Studies share their
records: the same recipe with the same seed is the same training.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mtkit.analysis.head_statistics import STATISTICS, HeadSums, real_queries, recorded_attention
from mtkit.bench.machine import inspect_machine
from mtkit.errors import DataError
from mtkit.evidence.results import change_line, read_lines_by_name
from mtkit.evidence.system import valid_text
from mtkit.model_folder.folder import read_model
from mtkit.pipeline.reconcile import without_defaults
from mtkit.recipe.paths import escape_path
from mtkit.study.runs import StudyRun
from mtkit.training.monitoring.log import last_event, logged_events
from mtkit.training.monitoring.meter import Stopwatch
from mtkit.translate.load import load_translator
from mtkit.translate.reference_text import batches

LOGGED = {"loss": "nll", "perplexity": "perplexity", "token_accuracy": "token_accuracy", "ece": "ece"}  # metric: key


@dataclass(frozen=True)
class Record:
    """Measurements of one training.

    Attributes:
        recipe: hash of the recipe's values, without its name and the folders of the corpus and of the runs.
        statistics: of BLEU, by system: each test line, packed (see bleu_statistics).
    """

    recipe: str
    environment: dict[str, Any]
    values: dict[str, float]
    statistics: dict[str, str]


class Records:
    """Records in a folder of results."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "trainings"

    def find(self, run: StudyRun) -> Record | None:
        """Record of a training with this recipe, of the run itself or of another study; None if there is none.

        Raises:
            DataError: a file is damaged.
        """
        recipe, study_path = _recipe_hash(run), self._path(run)
        for path in (study_path, *sorted(self._folder.glob("*.jsonl"))):
            for name, line in read_lines_by_name(path).items():
                if name.endswith(f"-seed-{run.seed}") and line.get("recipe") == recipe:
                    return _record(path, name, line)
        return None

    def rates(self, run: StudyRun) -> list[float]:
        """Learning rates that were tried for the variant of a run, that of the run first; none if its recipe has it."""
        label = run.folder.path.parent.name
        variant, at, chosen = label.rpartition("@")
        if not at:
            return []
        names = [name.rpartition("-seed-")[0].rpartition("@") for name in read_lines_by_name(self._path(run))]
        others = {float(rate) for each, _, rate in names if each == variant}
        return [float(chosen), *sorted(others - {float(chosen)})]

    def of(self, run: StudyRun) -> Record:
        """Record of a run; written with what its log tells, if there is none.

        Raises:
            DataError: the run has not finished, its log has no validation, or its files are damaged.
        """
        found = self.find(run)
        if found is not None:
            return found
        report, log = run.folder.read_report(), run.folder.log
        train, begin = report["train"], last_event(log, "begin")
        best = train["best_update"]  # of the validation whose weights became the model
        validations = [each for each in _events(run, "validation") if best is None or each["update"] == best]
        if not validations:
            raise DataError(f"{log}: no validation at update {best}; train again with --fresh")
        validation = validations[-1]
        times = last_event(log, "train") or {}  # the last event has the times of the whole training
        values = {metric: float(validation[key]) for metric, key in LOGGED.items() if validation.get(key) is not None}
        values |= {
            "updates": float(train["updates"]),
            "parameters": 0.0 if begin is None else float(begin["parameters"]),
        }
        if "processor_seconds" in times:
            seconds = float(times["processor_seconds"])
            tokens = train["tokens_per_second"] * train["seconds"]
            values |= {"train_seconds": seconds, "tokens_per_second": tokens / max(seconds, 1e-9)}
        for test, scores in report["test"].items():
            values |= {f"{test} {name}": score for name, score in scores.items() if isinstance(score, float)}
        record = Record(_recipe_hash(run), _environment(run), values, {})
        self._add(run, record, {}, {})
        return record

    def loss(self, run: StudyRun) -> float | None:
        """Loss on valid of a trial of a learning rate; infinite if it failed, None if it has not ended."""
        if self.find(run) is not None or run.is_finished():
            return self.of(run).values["loss"]
        return None if run.failure() is None else math.inf

    def value(self, run: StudyRun, key: str, compute: Callable[[], float]) -> float:
        """A value of a run, computed if its record has none."""
        found = self.of(run).values.get(key)
        if found is not None:
            return found
        value = compute()
        self._add(run, self.of(run), {key: value}, {})
        return value

    def statistics(self, run: StudyRun, system: str, compute: Callable[[], str]) -> str:
        """Packed statistics of a system's translations, computed if the record of its run has none."""
        found = self.of(run).statistics.get(system)
        if found is not None:
            return found
        packed = compute()
        self._add(run, self.of(run), {}, {system: packed})
        return packed

    def _add(self, run: StudyRun, record: Record, values: dict[str, float], statistics: dict[str, str]) -> None:
        """Add to the line of a run what is new, and to a new line all of the record."""

        def change(line: Mapping[str, Any] | None) -> Mapping[str, Any]:
            present = record if line is None or line.get("recipe") != record.recipe else _record(path, name, line)
            return asdict(replace(present, values=present.values | values, statistics=present.statistics | statistics))

        path, name = self._path(run), f"{run.folder.path.parent.name}-seed-{run.seed}"
        change_line(path, name, change)

    def _path(self, run: StudyRun) -> Path:
        return self._folder / f"{run.folder.path.parent.parent.name}.jsonl"


def _record(path: Path, name: str, line: Mapping[str, Any]) -> Record:
    try:
        return Record(**line)
    except TypeError as error:
        raise DataError(f"{path}: {name}: not a record of mtkit reproduce ({error}); remove the line") from error


def _recipe_hash(run: StudyRun) -> str:
    """Hash of what determines a training: its values, not its name or where its files are, and its source or teacher.

    Values that are the default have no part in it, so that a key that is new changes no hash. Nor does a default that
    changes: the environment of a record has the version of mtkit.
    """
    text = json.dumps(without_defaults(replace(run.recipe, name="")), sort_keys=True)
    text += "".join(map(_recipe_hash, run.required))
    for folder in filter(None, (run.folder.path.parents[1], run.recipe.corpus.root)):
        text = text.replace(json.dumps(escape_path(folder)).strip('"'), "")  # in the form that the text has it
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _environment(run: StudyRun) -> dict[str, Any]:
    """This machine, or its GPU; precision, threads and library of matrix products are those of the run."""
    machine, report = inspect_machine(measure=False), run.folder.read_report()
    numerics = report["train"].get("numerics", {})
    device = numerics.get("device", "cpu")
    return {
        "processor": machine.processor if device == "cpu" else device,
        "instructions": machine.instructions if device == "cpu" else [],
        "threads": numerics.get("threads", []),
        "matmul": numerics.get("matmul", ""),
        **{name: machine.versions[name] for name in ("mtkit", "python", "torch")},
        "training_precision": report["train"]["precision"],
        "translation_precision": report["test"][run.test].get("compute_type", ""),
    }


def seconds_to_bleu(run: StudyRun, goal: float) -> float:
    """Processor time until the first validation with a BLEU of `goal`, without that of the validations.

    Raises:
        DataError: no validation reached it, or the log has no time of that update.
    """
    reached = [event["update"] for event in _events(run, "validation") if (event.get("bleu") or 0.0) >= goal]
    if not reached:
        raise DataError(
            f"{run.label}: no validation has a BLEU of {goal:g}; lower goal, or set training.validation.sentences"
        )
    times = {event["update"]: float(event["processor_seconds"]) for event in _events(run, "train")}
    if reached[0] not in times:
        raise DataError(
            f"{run.label}: the log has no time of update {reached[0]}; set training.log_every to validate_every"
        )
    return times[reached[0]]


def lines_per_second(run: StudyRun, srcs: Sequence[str]) -> float:
    """Lines that are translated in a second of processor time, with the search of the recipe.

    Raises:
        DataError: the model is damaged.
    """
    translator = load_translator(run.folder.model, search=run.recipe.search)
    translator.translate_lines(srcs[:20])  # the first batch pays for what is loaded late
    watch = Stopwatch()
    translator.translate_lines(srcs)
    return len(srcs) / watch.processor_seconds


def positional_head(run: StudyRun) -> float:
    """Percentage of the queries of the most positional head of the encoder whose largest weight is on one neighbour.

    The neighbour is the previous token or the next one, whichever the head prefers. Voita et al. 2019, sec. 5.1,
    https://aclanthology.org/P19-1580/, call a head positional from 90% on. The text is the valid set.

    Raises:
        DataError: the encoder has no attention with softmax, or the run has no valid set.
    """
    loaded = read_model(run.folder.model)
    sums: dict[str, HeadSums] = {}
    with torch.inference_mode(), recorded_attention(loaded.model) as weights:
        for batch in batches(loaded, valid_text(run)):
            loaded.model.decode_states(batch.source, batch.target)  # as in training; `start` may split the batch
            for name in filter(lambda path: path.startswith("encoder."), weights):
                sums.setdefault(name, HeadSums(is_self_attention=True)).add(weights[name], real_queries(name, batch))
    if not sums:
        raise DataError(f"{run.label}: the encoder has no attention with softmax; positional_head needs one")
    neighbours = [STATISTICS.index(name) for name in ("previous", "next")]
    return max(100 * float(each.means()[:, neighbours].max()) for each in sums.values())


def _events(run: StudyRun, name: str) -> list[Mapping[str, Any]]:
    return [event for event in logged_events(run.folder.log) if event["event"] == name]
