"""Work on several threads: parts, errors, interruptions."""

from __future__ import annotations

import signal
import sys
import threading
import time

import pytest

from mtkit.hardware import num_threads
from mtkit.native import library
from mtkit.native.library import run_in_chunks, run_together


@pytest.mark.parametrize("num_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 7, 20, 100])
def test_every_item_is_in_one_part(count, num_threads) -> None:
    parts: list[tuple[int, int]] = []
    run_in_chunks(lambda first, number: parts.append((first, number)), count, num_threads)
    assert sorted(item for first, number in parts for item in range(first, first + number)) == list(range(count))
    assert len(parts) <= num_threads
    assert len(parts) == 1 or all(number >= library.MIN_ROWS for _, number in parts)


@pytest.mark.parametrize(("variable", "expected"), [("3", 3), ("0", None), ("many", None)])
def test_the_environment_sets_the_number_of_threads(variable, expected, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    monkeypatch.delitem(sys.modules, "torch", raising=False)  # which has a number of its own
    assert num_threads() == expected or (expected is None and num_threads() >= 1)


@pytest.mark.parametrize("failing", [0, 2], ids=["the caller's part", "the other part"])
def test_an_error_is_raised_after_all_parts_have_ended(failing, monkeypatch) -> None:
    monkeypatch.setattr(library, "MIN_ROWS", 1)
    ended = []

    def work(first: int, number: int) -> None:
        if first == failing:
            raise RuntimeError("out of memory")
        time.sleep(0.05)
        ended.append(first)

    with pytest.raises(RuntimeError, match="out of memory"):
        run_in_chunks(work, 4, 2)
    assert ended == [2 - failing]


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
