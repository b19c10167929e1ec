"""Work on several threads: parts, inference mode, errors."""

from __future__ import annotations

import signal
import threading
import time

import pytest
import torch

from mtkit.inference.native import threads
from mtkit.inference.native.threads import run_in_parts, run_together


@pytest.mark.parametrize("unit", [1, 3, 12])
@pytest.mark.parametrize("num_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("units", [0, 1, 2, 5, 30])
def test_every_item_is_in_one_part_and_units_are_whole(units, num_threads, unit, monkeypatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: num_threads)
    parts, count = [], units * unit
    run_in_parts(lambda first, number: parts.append((first, number)), count, unit)
    assert sorted(item for first, number in parts for item in range(first, first + number)) == list(range(count))
    assert all(first % unit == number % unit == 0 for first, number in parts)
    assert len(parts) <= num_threads
    assert len(parts) == 1 or all(number >= min(threads.MIN_ITEMS, unit) for _, number in parts)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("is_inference", [True, False])
def test_all_parts_run_in_the_inference_mode_of_the_caller(is_inference) -> None:
    """A tensor that is made in inference mode can only be written in inference mode."""
    modes = {}

    def work(first: int, number: int) -> None:
        modes[threading.get_ident()] = torch.is_inference_mode_enabled()
        written[first : first + number] += first

    with torch.inference_mode(is_inference):
        written = torch.zeros(4)
        run_in_parts(work, 4)
    assert list(modes.values()) == [is_inference] * 2
    assert written.tolist() == [0, 0, 2, 2]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("failing", [0, 2], ids=["the caller's part", "the other part"])
def test_an_error_is_raised_after_all_parts_have_ended(failing) -> None:
    ended = []

    def work(first: int, number: int) -> None:
        if first == failing:
            raise RuntimeError("out of memory")
        time.sleep(0.05)
        ended.append(first)

    with pytest.raises(RuntimeError, match="out of memory"):
        run_in_parts(work, 4)
    assert ended == [2 - failing]


@pytest.mark.usefixtures("two_threads")
def test_an_interruption_is_raised_after_all_tasks_have_ended() -> None:
    """Ctrl-C while the calling thread has nothing to do but to wait."""
    stop, ended = threading.Event(), []

    def work() -> None:
        signal.raise_signal(signal.SIGINT)  # handled by the main thread
        assert stop.wait(60)
        time.sleep(0.05)
        ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_together([lambda: None, work], stop.set)
    assert ended == [True]
