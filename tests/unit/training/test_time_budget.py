"""Time budgets: the real choices, loop and schedule under a clock and a load that the test makes."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import signal
import time
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from mtkit.errors import Interrupted
from mtkit.pipeline import estimate
from mtkit.pipeline.choices import choose_for_run
from mtkit.recipe.defaults.facts import check_budget
from mtkit.recipe.recipe import read_recipe
from mtkit.training.checkpoints.checkpoint import list_checkpoints
from mtkit.training.config import RetentionConfig
from mtkit.training.decoder_inputs.config import LinearDecayConfig, ScheduledSamplingConfig
from mtkit.training.distributed import SINGLE_PROCESS
from mtkit.training.learner import Learner
from mtkit.training.loop import train
from mtkit.training.monitoring.log import Log, NullDisplay
from mtkit.training.monitoring.meter import BusyMachine, CpuTimes, Stopwatch
from mtkit.training.monitoring.validation import Validation
from mtkit.training.optimisers.schedule import LinearConfig
from mtkit.training.run import TrainingRun
from mtkit.training.time_budget import AIM, BudgetProgress, TimeBudget
from tests.toy.sampling import sampled
from tests.toy.training import (
    ToyLoader,
    UnshardedValidator,
    equal,
    events,
    toy_config,
    toy_learner,
    toy_train,
    toy_validate,
)
from tests.unit.recipe.defaults.test_choose import facts

STEPS = 200  # of a curve of load, each a share of the budget


class Machine:
    """Clocks of a machine with one core, whose speed for this process is a step function of the time."""

    def __init__(self, budget: float, speeds: list[float]) -> None:
        self.step, self.speeds = budget / STEPS, speeds
        self.now = self.cpu = 0.0

    def work(self, seconds: float) -> None:
        """Let this process compute for some seconds of the processor."""
        while seconds > 1e-12:
            number = int(self.now / self.step + 1e-9)
            speed = self.speeds[min(number, STEPS - 1)]
            until = (number + 1) * self.step - self.now if number < STEPS else float("inf")
            elapsed = min(until, seconds / speed)
            self.now += elapsed
            self.cpu += elapsed * speed
            seconds -= elapsed * speed

    def cpu_times(self) -> CpuTimes:
        """Of all processes, which together use the whole core."""
        return CpuTimes(self.now, self.now, self.cpu)


def load_curve(rng: random.Random) -> list[float]:
    """Speed of the machine over a budget, between 0.05 and 1; in the last tenth it changes by half at most."""
    kind = rng.choice(["even", "step", "freed", "taken", "ramp", "bursts", "stalls", "walk", "busy at first"])
    low, high = sorted((rng.uniform(0.05, 1), rng.uniform(0.3, 1)))
    at = rng.randrange(STEPS)
    speeds = [high] * STEPS
    if kind == "step":
        speeds = [rng.choice((low, high))] * at + [rng.choice((low, high))] * (STEPS - at)
    elif kind in ("freed", "busy at first"):
        at = at if kind == "freed" else STEPS // 20
        speeds = [low] * at + [high] * (STEPS - at)
    elif kind == "taken":
        speeds = [high] * at + [low] * (STEPS - at)
    elif kind == "ramp":
        ends = rng.sample((low, high), 2)
        speeds = [ends[0] + (ends[1] - ends[0]) * number / STEPS for number in range(STEPS)]
    elif kind == "bursts":
        length = rng.randint(1, 20)
        speeds = [low if number // length % 2 else high for number in range(STEPS)]
    elif kind == "stalls":
        for _ in range(rng.randint(1, 5)):
            start, length = rng.randrange(8 * STEPS // 10), rng.randint(1, STEPS // 10)
            speeds[start : start + length] = [1e-3] * length
    elif kind == "walk":
        for number in range(1, STEPS):
            speeds[number] = min(1.0, max(0.05, speeds[number - 1] * rng.uniform(0.8, 1.25)))
    steady = 9 * STEPS // 10
    last = speeds[steady]
    speeds[steady:] = [min(max(each, last / 1.5), last * 1.5, 1.0) for each in speeds[steady:]]
    return speeds


@dataclass
class Work:
    """Seconds of the processor that the parts of a training take."""

    start: float
    prepare: float
    update: float  # of width 256 and 4,096 tokens
    validation: float
    saving: float

    @classmethod
    def of(cls, rng: random.Random, budget: float) -> Work:
        """Within a budget of this time, on a free machine."""
        shares = {
            "start": rng.uniform(0.002, 0.03),
            "prepare": rng.uniform(0.005, 0.05),
            "update": rng.uniform(0.0003, 0.003),
            "validation": rng.uniform(0.0005, 0.01),
            "saving": rng.uniform(0.0002, 0.003),
        }
        return cls(**{name: share * budget for name, share in shares.items()})


@dataclass(frozen=True)
class SimulatedLearner(Learner):
    """A learner whose updates take time, and change nothing."""

    update_work: Any = None
    rates: list[float] = field(default_factory=list)
    paces: list[float] = field(default_factory=list)

    def start_update(self, update, lr_factor=1.0, *, scheduled_update=None):
        self.rates.append(super().start_update(update, lr_factor, scheduled_update=scheduled_update))
        return self.rates[-1]

    def losses(self, batches, update):
        self.update_work()
        yield from ()

    def reduce_and_clip_gradients(self):
        return torch.zeros(())

    def step(self, update, pace=1.0):
        self.paces.append(pace)


class SimulatedLoader:
    """A loader whose updates are all alike."""

    def updates(self, start):
        yield from itertools.repeat(next(ToyLoader().updates(start)))


class InlineExecutor:
    """An executor without threads, for which the clock of a test has no place."""

    def __init__(self, **options: Any) -> None:
        pass

    def submit(self, function, *arguments):
        future: Future[None] = Future()
        future.set_result(function(*arguments))
        return future

    def shutdown(self, *, wait: bool) -> None:
        pass


@dataclass
class Simulation:
    """Result of a command with a budget, on a made machine."""

    seconds: float  # as a share of the budget
    rates: list[float]
    reason: str
    updates: list[int]  # that were validated
    validation_shares: list[float]
    training: Any


def simulate(folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int, speeds: list[float] | None = None) -> Simulation:
    rng = random.Random(seed)
    minutes = rng.choice((1, 3, 10, 60))
    budget = 60.0 * minutes
    machine, work = Machine(budget, speeds or load_curve(rng)), Work.of(rng, budget)
    pairs, noise = rng.choice((5_000, 20_000, 100_000)), random.Random(seed)
    _patch(monkeypatch, machine, work, pairs)

    limits = check_budget(f"{minutes}m", [])
    machine.work(work.start)
    training = choose_for_run(read_recipe(str(folder / "toy.yaml")), limits, run_dir=folder / "none").training
    machine.work(work.prepare)
    keys = ("max_updates", "validate_every", "checkpoint_every", "budget_hours", "budget_updates", "schedule", "ema")
    config = replace(toy_config(), patience=None, **{key: getattr(training, key) for key in keys})
    per_update, validations = work.update * training.batch_tokens / 4096, list[tuple[int, float]]()

    def validate(model, update):
        before = machine.now
        machine.work(work.validation * noise.uniform(0.8, 1.2))
        validations.append((update, (machine.now - before) / budget))
        return Validation(5.0 - len(validations) / 10)

    learner = toy_learner(config)
    simulated = SimulatedLearner(
        **{each.name: getattr(learner, each.name) for each in dataclasses.fields(learner)},
        update_work=lambda: machine.work(per_update * noise.lognormvariate(0, 0.2)),
    )
    name = f"run-{len([*folder.iterdir()])}"
    with Log(folder / f"{name}.jsonl", NullDisplay()) as log:
        run = TrainingRun(
            simulated,
            config=config,
            folder=folder / name,
            log=log,
            validator=UnshardedValidator(validate),
            since_start=Stopwatch(machine.now - limits.started),
        )
        result = train(run, SimulatedLoader())
    machine.work(work.saving / 2)  # the model folder
    updates, shares = zip(*validations, strict=True)
    return Simulation(machine.now / budget, simulated.rates, result.reason, [*updates], [*shares], config)


def _patch(monkeypatch: pytest.MonkeyPatch, machine: Machine, work: Work, pairs: int) -> None:
    """Let everything that takes time take that of a machine."""

    def forward_backward(learner, batch):
        machine.work(work.update * learner.cost * 30 * len(batch.sample_ids) / 4096)

    def build_learner(recipe):
        machine.work(work.start / 10)
        model = recipe.model
        cost = (model.d_model / 256) ** 1.5 * (model.encoder_layers + model.decoder_layers) / 8
        return SimpleNamespace(model=nn.Linear(2, 2), cost=cost), ""

    def write_checkpoint(checkpoint, path):
        machine.work(work.saving)
        path.mkdir(parents=True)

    def average(paths, known):
        machine.work(0.75 * work.saving)
        return {}

    monkeypatch.setattr(time, "perf_counter", lambda: machine.now)
    monkeypatch.setattr(time, "process_time", lambda: machine.cpu)
    monkeypatch.setattr(time, "thread_time", lambda: machine.cpu)
    monkeypatch.setattr(estimate, "read_cpu_times", machine.cpu_times)
    monkeypatch.setattr(estimate.torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(estimate, "forward_backward", forward_backward)
    monkeypatch.setattr(estimate, "_build_learner", build_learner)
    monkeypatch.setattr(BusyMachine, "warning", lambda *_: None)
    monkeypatch.setattr("mtkit.training.checkpoints.checkpoint.ThreadPoolExecutor", InlineExecutor)
    monkeypatch.setattr("mtkit.training.checkpoints.checkpoint.write_checkpoint", write_checkpoint)
    monkeypatch.setattr("mtkit.training.loop.average_checkpoints", average)
    monkeypatch.setattr("mtkit.training.loop.verify_checkpoint", lambda path: [])
    monkeypatch.setattr("mtkit.recipe.defaults.choose.corpus_statistics", lambda src, tgt: facts(pairs).corpus)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("train", "valid"):
        for lang in ("en", "de"):
            (tmp_path / f"{part}.{lang}").write_text("a dog\n")
    (tmp_path / "toy.yaml").write_text(
        "corpus: {src_lang: en, tgt_lang: de, train: [{src: train.en, tgt: train.de}], "
        "valid: {src: valid.en, tgt: valid.de}}\n"
    )
    return tmp_path


@pytest.mark.parametrize("seed", range(sampled(20)))
def test_a_budget_is_kept_and_the_schedule_ends_under_any_load(folder, monkeypatch, seed):
    with monkeypatch.context() as patch:
        check(simulate(folder, patch, seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 200))
def test_a_budget_is_kept_under_many_loads(folder, monkeypatch, seed):
    with monkeypatch.context() as patch:
        check(simulate(folder, patch, seed))


def check(result: Simulation) -> None:
    rates, training = result.rates, result.training
    assert result.seconds < 1.05
    assert result.seconds > 0.95 or result.reason == "max_updates"  # all that the corpus needs fits
    peak = rates.index(max(rates))
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[-1] == 0 < rates[peak]
    assert rates[peak] > 0.9 * training.optimiser.learning_rate
    assert result.updates[-1] == len(rates)  # the last weights are validated
    regular = result.validation_shares[:-1]
    assert sum(sorted(regular)[:-1]) < 0.05  # one of them may fall into a stall


def test_the_load_of_others_decides_on_the_updates_and_not_on_the_model(folder, monkeypatch):
    """A machine that is busy until a third of the budget is over, and one that is free."""
    busy = [0.1] * (STEPS // 3) + [1.0] * (STEPS - STEPS // 3)
    results = []
    for speeds in (busy, [1.0] * STEPS):
        with monkeypatch.context() as patch:
            results.append(simulate(folder, patch, 5, speeds))
    assert results[0].training == results[1].training
    assert all(result.seconds == pytest.approx(AIM, abs=0.02) for result in results)
    assert 0.6 < len(results[0].rates) / len(results[1].rates) < 0.75


HOUR = {"max_updates": 10_000, "budget_hours": 1.0, "budget_updates": 1000, "validate_every": 200}


def budget_of(machine: Machine, progress: BudgetProgress | None = None, **keys: Any) -> TimeBudget:
    config = toy_config(schedule=LinearConfig(warmup=0), **HOUR | keys)
    return TimeBudget(config, progress, since_start=Stopwatch(), watch=Stopwatch(), ranks=SINGLE_PROCESS)


@pytest.fixture
def machine(monkeypatch):
    machine = Machine(3600, [1.0] * STEPS)
    monkeypatch.setattr(time, "perf_counter", lambda: machine.now)
    monkeypatch.setattr(time, "process_time", lambda: machine.cpu)
    return machine


def run_updates(budget: TimeBudget, machine: Machine, first: int, last: int, seconds: float) -> None:
    for update in range(first, last + 1):
        budget.begin_update(update, validation_seconds=0.0, saving_seconds=0.0)
        machine.work(seconds)
        budget.finish_update(update)


def test_the_schedule_follows_the_time_up_and_down(machine):
    budget = budget_of(machine)
    run_updates(budget, machine, 1, 90, 10)  # slower than expected: a quarter of the time
    assert budget.scheduled_update(90) == pytest.approx(900 / (AIM * 3600) * 1000)
    run_updates(budget, machine, 91, 1000, 1)  # faster
    assert budget.scheduled_update(1000) == pytest.approx(1810 / (AIM * 3600) * 1000, rel=0.01)
    assert budget.pace(1000) == budget.scheduled_update(1000) / 1000
    last = 1000 + round((AIM * 3600 - 1810) / 10)
    run_updates(budget, machine, 1001, last, 10)
    assert budget.scheduled_update(last) == 1000
    assert budget.is_spent
    assert machine.now == pytest.approx(AIM * 3600, abs=10)


def test_the_time_before_the_first_update_is_spent_and_no_part_of_the_schedule(machine):
    since_start = Stopwatch()
    machine.work(1800)
    config = toy_config(**HOUR)
    budget = TimeBudget(config, None, since_start=since_start, watch=Stopwatch(), ranks=SINGLE_PROCESS)
    run_updates(budget, machine, 1, 1, 1)
    assert budget.spent == 1801
    assert budget.scheduled_update(1) == 1
    assert 2 < budget_of(machine, budget.progress).share * 1000 + 2 < 3


def test_updates_end_a_training_that_needs_less_than_its_budget(machine):
    budget = budget_of(machine, max_updates=100, budget_updates=None)
    run_updates(budget, machine, 1, 100, 1)
    assert budget.scheduled_update(100) == 100
    assert machine.now == 100


@pytest.mark.whole
@pytest.mark.parametrize("at", [7, 40])
def test_an_interrupted_budget_continues_with_the_remaining_share(tmp_path, monkeypatch, at):
    """A real training under a clock that updates and validations move, interrupted for a day."""
    machine = Machine(600, [1.0] * STEPS)
    monkeypatch.setattr(time, "perf_counter", lambda: machine.now)
    monkeypatch.setattr(time, "process_time", lambda: machine.cpu)

    def validate(model, update):
        machine.work(1.0)
        return toy_validate(model, update)

    def loader(stop: int | None) -> ToyLoader:
        class Slow(ToyLoader):
            def updates(self, start):
                for number, data in enumerate(super().updates(start), 1):
                    machine.work(6.0)
                    if number == stop:
                        os.kill(os.getpid(), signal.SIGTERM)
                    yield data

        return Slow()

    keys = {"max_updates": 5000, "validate_every": 10, "checkpoint_every": 10, "budget_hours": 1 / 6, "log_every": 1}
    config = toy_config(budget_updates=50, schedule=LinearConfig(warmup=5), **keys)
    whole = toy_train(tmp_path / "whole", config, validate=validate, loader=loader(None))
    with pytest.raises(Interrupted):
        toy_train(tmp_path / "run", config, validate=validate, loader=loader(at))
    machine.work(86_400)
    resumed = toy_train(tmp_path / "run", config, validate=validate, loader=loader(None))
    assert (whole.reason, resumed.reason) == ("budget_hours", "budget_hours")
    assert whole.update == resumed.update == 96
    rates = [[record["learning_rate"] for record in events(tmp_path / each, "train")] for each in ("run", "whole")]
    assert rates[0] == pytest.approx(rates[1], abs=0.15 * max(rates[1]))  # the time of an update is measured again
    assert rates[0][-1] == 0
    updates = [[record["update"] for record in events(tmp_path / each, "validation")] for each in ("run", "whole")]
    assert updates[0] == updates[1]
    assert len(updates[0]) == 5
    again = toy_train(tmp_path / "run", config, validate=validate, loader=loader(None))
    assert equal(again.weights, resumed.weights)
    assert again.update == 96


def test_without_a_budget_the_schedule_is_that_of_the_updates(machine):
    budget = budget_of(machine, budget_hours=None, budget_updates=None)
    run_updates(budget, machine, 1, 7, 1000)
    assert (budget.scheduled_update(7), budget.pace(7)) == (7, 1.0)
    assert budget.progress is None
    assert not budget.is_spent


def test_the_share_decides_on_the_ratio_the_average_and_the_checkpoints(tmp_path, monkeypatch):
    """Half as many updates as expected: all that counts updates is twice as fast."""
    machine = Machine(600, [1.0] * STEPS)
    monkeypatch.setattr(time, "perf_counter", lambda: machine.now)
    monkeypatch.setattr(time, "process_time", lambda: machine.cpu)
    sampling = ScheduledSamplingConfig(teacher_forcing_ratio=LinearDecayConfig(updates=100, end=0.0))
    keys = {"max_updates": 5000, "validate_every": 20, "checkpoint_every": 20, "budget_hours": 1 / 6, "log_every": 1}
    config = toy_config(budget_updates=100, keep=RetentionConfig(last=9, every=7), decoder_input=sampling, **keys)
    paces = []

    class Slow(ToyLoader):
        def updates(self, start):
            for data in super().updates(start):
                machine.work(12.0)
                yield data

    learner = toy_learner(config)
    monkeypatch.setattr(type(learner.ema), "update_from", lambda average, model, update, pace: paces.append(pace))
    result = toy_train(tmp_path, config, loader=Slow(), learner=learner)
    assert result.update == 48
    assert paces[20:] == pytest.approx([100 / 48] * 28, rel=0.02)
    ratios = [record["teacher_forcing_ratio"] for record in events(tmp_path, "train")]
    assert ratios[24] == pytest.approx(0.5, abs=0.02)
    assert ratios[-1] == pytest.approx(0.01)
    kept = {*list_checkpoints(tmp_path / "checkpoints")}
    assert all(kept & {each - 1, each, each + 1} for each in (10, 20, 30, 40))
    assert {7, 14, 21, 28, 35, 42, 48} <= kept


def test_a_last_validation_without_time_is_left_out_and_the_last_weights_are_the_model(tmp_path, monkeypatch):
    machine = Machine(600, [1.0] * STEPS)
    monkeypatch.setattr(time, "perf_counter", lambda: machine.now)
    monkeypatch.setattr(time, "process_time", lambda: machine.cpu)

    def validate(model, update):
        machine.work(250.0)  # the reserve is limited
        return toy_validate(model, update)

    class Slow(ToyLoader):
        def updates(self, start):
            for data in super().updates(start):
                machine.work(6.0)
                yield data

    config = toy_config(max_updates=5000, validate_every=20, budget_hours=1 / 6, budget_updates=100)
    learner = toy_learner(config)
    result = toy_train(tmp_path, config, validate=validate, loader=Slow(), learner=learner)
    assert machine.now < 630
    assert len(events(tmp_path, "validation")) == 1
    assert torch.equal(result.weights["mix.weight"], learner.ema.weights["mix.weight"])
