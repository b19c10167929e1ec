"""A short draw of each robustness experiment; `python -m tools.robustness --all` is the long form."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache, partial

import pytest

from tests.toy.sampling import sampled
from tools.robustness.experiments import NAMES, documents, fuzzers, writers
from tools.robustness.harness.client import ForkServer
from tools.robustness.harness.experiment import Trial, draw
from tools.robustness.harness.known import KNOWN_FAULTS, KNOWN_HANGS, KNOWN_TRIALS
from tools.robustness.harness.lab import Lab

LIMIT = 60.0  # seconds after which a command hangs: the promise is 10, but the machine may be busy
SEED = 1
# trials of each experiment; the default run makes one
COUNTS = {"kills": 3, "flips": 8, "disks": 4, "signals": 4, "documents": 4, "folders": 6, "recipes": 5, "writers": 4}
LEFT_OUT = "translate: workers"  # two processes that import torch; tests/e2e/translation/test_translate.py starts them
DRAWN: dict[str, Callable[[Lab, int], list[Trial]]] = {
    "fuzzers": partial(fuzzers.trials, seconds=0.05),
    "documents": partial(documents.trials, length=40),
    "writers": partial(writers.trials, names=("run folder", "translate -o", "train-bpe -o", "evaluate --json")),
}
FORKED_RANKS = ("killed", "stopped", "slow")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with ForkServer() as server:
        yield Lab(tmp_path_factory.mktemp("robustness"), server, LIMIT)


@cache
def trials_of(lab: Lab, name: str) -> list[Trial]:
    trials = DRAWN.get(name) or importlib.import_module(f"tools.robustness.experiments.{name}").trials
    found = trials(lab, SEED)
    return [each for each in found if not re.search(KNOWN_HANGS, each.name) and each.group != LEFT_OUT]


def faults(trials: list[Trial]) -> list[str]:
    """Broken promises that are not known."""
    assert trials
    ends = {trial.name: trial.attempt().fault for trial in trials}
    broken = [f"{name}: {fault}" for name, fault in ends.items() if fault is not None]
    return [line for line in broken if not any(re.search(known, line) for known in KNOWN_FAULTS)]


@pytest.mark.whole
@pytest.mark.parametrize("name", COUNTS)
def test_promises_hold(lab: Lab, name: str) -> None:
    assert faults(draw(trials_of(lab, name), sampled(COUNTS[name], least=1), SEED)) == []


@pytest.mark.whole
def test_readers_refuse_what_they_cannot_read(lab: Lab) -> None:
    assert faults(draw(trials_of(lab, "fuzzers"), len(fuzzers.NAMES), SEED)) == []


@pytest.mark.whole
def test_ranks_end_when_one_does_not_answer(lab: Lab) -> None:
    assert faults(draw(trials_of(lab, "ranks"), len(FORKED_RANKS), SEED, FORKED_RANKS)) == []


def expected_failures() -> Iterator[object]:
    for place, reason in KNOWN_TRIALS.items():
        yield pytest.param(*place, marks=pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))


@pytest.mark.parametrize(("name", "trial"), list(expected_failures()))
def test_known_holes(lab: Lab, name: str, trial: str) -> None:
    [found] = [each for each in trials_of(lab, name) if each.name.startswith(trial)][:1]
    assert found.attempt().fault is None


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_promises_hold_longer(lab: Lab, name: str) -> None:
    assert faults(draw(trials_of(lab, name), 60, SEED)) == []
