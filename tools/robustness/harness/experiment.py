"""Experiments, their trials and results; running as many trials as asked, after those that have run already."""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path

from tools.robustness.harness.client import Outcome, ServerEnded


@dataclass(frozen=True)
class Ending:
    """The end of a trial.

    Attributes:
        label: the end in a few words, counted in the report.
        fault: the broken promise; None if all were kept.
        tries: number of attacks in the trial.
    """

    label: str
    fault: str | None = None
    tries: int = 1

    @classmethod
    def of(cls, outcome: Outcome, fault: str | None = None) -> Ending:
        """The end of one command, with its own fault if it has one."""
        return cls(outcome.label(), outcome.fault() or fault)


@dataclass(frozen=True)
class Trial:
    """One attack.

    Attributes:
        group: the part of the experiment that it belongs to.
        name: unique in the experiment; repeats the trial with `--trial`.
        attempt: performs it.
    """

    group: str
    name: str
    attempt: Callable[[], Ending]


@dataclass(frozen=True)
class Failure:
    """A trial that broke a promise."""

    group: str
    trial: str
    fault: str


@dataclass(frozen=True)
class Result:
    """Result of an experiment.

    Attributes:
        tried: number of attacks.
        survived: attacks after which all promises were kept.
        failures: the others.
        endings: by group and label, the number of attacks.
        seconds: duration of all trials.
    """

    name: str
    tried: int
    survived: int
    failures: tuple[Failure, ...]
    endings: dict[str, dict[str, int]]
    seconds: float


def draw(trials: Iterable[Trial], count: int, seed: int, groups: Sequence[str] = ()) -> list[Trial]:
    """Choose trials: all groups in turn, each in a random order."""
    by_group: dict[str, list[Trial]] = {}
    for trial in trials:
        if not groups or trial.group in groups:
            by_group.setdefault(trial.group, []).append(trial)
    rng = random.Random(seed)
    for group in by_group.values():
        rng.shuffle(group)
    rounds = chain.from_iterable(zip_longest(*by_group.values()))
    return list(islice((trial for trial in rounds if trial is not None), count))


def forget_failures(records: Path) -> None:
    """Remove the records of failures, so that these trials are performed again."""
    kept = [record for record in read_records(records) if record["fault"] is None]
    if records.is_file():
        records.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in kept), encoding="utf-8")


def perform(
    trials: Iterable[Trial], records: Path, announce: Callable[[str], None], *, until: float = math.inf
) -> None:
    """Perform the trials that have no record yet, and record each as a line of JSON.

    Args:
        trials: in this order.
        records: file of the records.
        announce: called with a sentence about each broken promise.
        until: time (of `time.monotonic`) after which no trial begins.
    """
    done = {record["trial"] for record in read_records(records)}
    records.parent.mkdir(parents=True, exist_ok=True)
    with records.open("a", encoding="utf-8") as file:
        for trial in trials:
            if trial.name in done:
                continue
            if time.monotonic() > until:
                return
            start = time.monotonic()
            try:
                ending = trial.attempt()
            except ServerEnded:
                raise
            except Exception as error:  # what a check cannot read is a broken promise too; the other trials go on
                ending = Ending("check failed", f"{type(error).__name__}: {error}")
            fields = {"group": trial.group, "trial": trial.name, "label": ending.label, "fault": ending.fault}
            fields |= {"tries": ending.tries, "seconds": round(time.monotonic() - start, 3)}
            file.write(json.dumps(fields, ensure_ascii=False) + "\n")
            file.flush()
            if ending.fault is not None:
                announce(f"{trial.name}: {ending.fault}")


def read_records(records: Path) -> list[dict[str, object]]:
    """The records of finished trials."""
    text = records.read_text(encoding="utf-8") if records.is_file() else ""
    return [json.loads(line) for line in text.split("\n") if line]


def result(name: str, records: Path) -> Result:
    """Count the records of an experiment."""
    content = list(read_records(records))
    endings: dict[str, Counter[str]] = {}
    for record in content:
        label = record["label"] if record["fault"] is None else f"BROKEN: {record['label']}"
        endings.setdefault(str(record["group"]), Counter())[str(label)] += int(str(record["tries"]))
    failures = tuple(_failures(content))
    tried = sum(sum(counts.values()) for counts in endings.values())
    seconds = sum(float(str(record["seconds"])) for record in content)
    return Result(name, tried, tried - len(failures), failures, {k: dict(v) for k, v in endings.items()}, seconds)


def _failures(records: Iterable[dict[str, object]]) -> Iterator[Failure]:
    for record in records:
        if record["fault"] is not None:
            yield Failure(str(record["group"]), str(record["trial"]), str(record["fault"]))
