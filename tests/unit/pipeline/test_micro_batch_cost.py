"""Costs of a micro-batch, with a clock that the test moves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from mtkit.pipeline import estimate
from mtkit.pipeline.estimate import SENTENCE_TOKENS, measure_cost, median_seconds, seconds_on_free_cores
from mtkit.text.vocab import Vocab
from mtkit.training.monitoring.meter import CpuTimes

VOCAB = Vocab(size=20, pad=0, unk=1, bos=2, eos=3)


class Clock:
    """Clocks of the machine and of this process; a pass takes a time for each sentence."""

    def __init__(self, wall: float, cpu: float) -> None:
        self.per_sentence = wall, cpu
        self.now = [0.0, 0.0]
        self.batches: list[int] = []

    def forward_backward(self, learner: object, batch) -> None:
        self.batches.append(len(batch.sample_ids))
        self.now = [now + each * self.batches[-1] for now, each in zip(self.now, self.per_sentence, strict=True)]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch):
    def begin(wall: float, cpu: float, threads: int = 1) -> Clock:
        clock = Clock(wall, cpu)
        monkeypatch.setattr(estimate, "forward_backward", clock.forward_backward)
        monkeypatch.setattr(estimate.time, "perf_counter", lambda: clock.now[0])
        monkeypatch.setattr(estimate.time, "process_time", lambda: clock.now[1])
        monkeypatch.setattr(estimate.torch, "get_num_threads", lambda: threads)
        return clock

    return begin


def learner() -> SimpleNamespace:
    return SimpleNamespace(model=nn.Linear(2, 2))


@pytest.mark.parametrize(("threads", "free"), [(1, 0.02), (2, 0.01)])
def test_the_time_on_free_cores_is_the_cpu_time_of_a_thread(start, threads, free):
    clock = start(wall=0.9, cpu=0.02, threads=threads)
    cost = measure_cost(learner(), VOCAB, 10 * SENTENCE_TOKENS)
    assert cost.seconds == pytest.approx(10 * 0.9)
    assert cost.free_seconds == pytest.approx(10 * free)
    assert clock.batches == [4, 4, 10, 10, 10]  # fast, although it waited for a core


def test_a_fast_model_is_measured_on_as_many_sentences_as_take_half_a_second(start):
    clock = start(wall=0.05, cpu=0.05)
    assert measure_cost(learner(), VOCAB, 1000 * SENTENCE_TOKENS).seconds == pytest.approx(50)
    assert clock.batches[1:] == [4, 10, 10, 10]


def test_a_slow_model_is_measured_on_few_sentences(start):
    clock = start(wall=0.9, cpu=0.8)
    cost = measure_cost(learner(), VOCAB, 100 * SENTENCE_TOKENS)
    assert (cost.seconds, cost.free_seconds) == (pytest.approx(90), pytest.approx(80))
    assert clock.batches == [4, 4]


@pytest.mark.parametrize(
    ("others", "threads", "seconds"),
    [(0.0, 1, 0.9), (0.4, 1, 0.9), (1.0, 1, 0.2), (1.0, 2, 0.1)],  # cores of others; from half a core they count
)
def test_what_others_do_in_this_moment_does_not_change_the_time_of_an_update(
    start, monkeypatch, others, threads, seconds
):
    clock = start(wall=0.09, cpu=0.02, threads=threads)
    monkeypatch.setattr(
        estimate,
        "read_cpu_times",
        lambda: CpuTimes(clock.now[0], clock.now[1] + others * clock.now[0], clock.now[1]),
    )
    assert median_seconds(learner(), VOCAB, 10 * SENTENCE_TOKENS + 7, 3.0) == pytest.approx(seconds)
    assert clock.batches == [1, 10, 10, 10]


def test_a_gpu_and_a_system_without_cpu_times_are_measured_by_the_clock(start, monkeypatch):
    clock = start(wall=0.09, cpu=0.02)
    monkeypatch.setattr(estimate, "read_cpu_times", lambda: None)
    assert median_seconds(learner(), VOCAB, 10 * SENTENCE_TOKENS, 3.0) == pytest.approx(0.9)
    monkeypatch.setattr(estimate, "read_cpu_times", lambda: CpuTimes(clock.now[0], 9 * clock.now[0], 0.0))
    seconds = seconds_on_free_cores(
        lambda: clock.forward_backward(None, SimpleNamespace(sample_ids=range(10))), torch.device("cuda")
    )
    assert seconds == pytest.approx(0.9)


def test_a_slow_micro_batch_is_timed_once(start, monkeypatch):
    clock = start(wall=0.9, cpu=0.02)
    monkeypatch.setattr(estimate, "read_cpu_times", lambda: None)
    assert median_seconds(learner(), VOCAB, 10 * SENTENCE_TOKENS, 3.0) == pytest.approx(9.0)
    assert clock.batches == [1, 10]
    clock.batches.clear()
    assert median_seconds(learner(), VOCAB, SENTENCE_TOKENS, 1.0) == pytest.approx(0.9)  # of a short budget
    assert clock.batches == [1, 1, 1]
