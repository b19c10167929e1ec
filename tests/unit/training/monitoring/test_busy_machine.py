"""A busy machine is noticed once, by the CPU time that other processes take from the threads of a training."""

from __future__ import annotations

import pytest

from mtkit.training.monitoring import meter
from mtkit.training.monitoring.meter import BusyMachine, CpuTimes, read_cpu_times


def detector(threads, cores, shares, processes=1):
    """A detector whose clock advances by ten seconds, in which others and this process use these shares of a core."""
    times = [CpuTimes(0.0, 0.0, 0.0)]
    for others, own in shares:
        wall, machine, process = times[-1]
        times.append(CpuTimes(wall + 10, machine + 10 * (others + processes * own), process + 10 * own))
    return BusyMachine(threads, processes=processes, cores=cores, read=iter(times).__next__)


@pytest.mark.parametrize(
    ("threads", "cores", "others", "own", "processes", "is_busy"),
    [
        (2, 2, 0.1, 1.9, 1, False),
        (2, 2, 1.0, 1.0, 1, True),
        (1, 2, 1.0, 1.0, 1, False),
        (1, 2, 2.0, 0.5, 1, True),
        (16, 64, 40.0, 16.0, 1, False),
        (1, 4, 0.2, 1.0, 4, False),
        (1, 4, 2.0, 0.6, 4, True),
    ],
)
def test_threads_that_find_no_core(threads, cores, others, own, processes, is_busy):
    sentence = detector(threads, cores, [(others, own)], processes).warning(0.4)
    assert (sentence is not None) == is_busy
    if sentence is not None:
        assert f"other processes use {others:.1f} of {cores} cores" in sentence
        count = processes * threads
        assert f"this training has {count} {'thread' if count == 1 else 'threads'} (0.4 s per update)" in sentence
        assert ("OMP_NUM_THREADS=1" in sentence) == (threads > 1)


def test_it_is_said_once_and_also_when_it_begins_later():
    busy = detector(2, 2, [(0.0, 2.0), (1.0, 1.0), (1.0, 1.0)])
    sentences = [busy.warning(seconds) for seconds in (0.4, 9.0, 9.0)]
    assert [sentence is not None for sentence in sentences] == [False, True, False]
    assert "(9 s per update)" in (sentences[1] or "")


def test_a_short_interval_is_not_judged():
    times = [CpuTimes(0.0, 0.0, 0.0), CpuTimes(1.0, 5.0, 0.0), CpuTimes(10.0, 5.0, 0.0)]
    busy = BusyMachine(2, cores=2, read=iter(times).__next__)
    assert busy.warning(1.0) is None
    assert busy.warning(1.0) is None  # 0.5 cores over the whole interval


def test_times_of_this_machine(tmp_path, monkeypatch):
    first = read_cpu_times()
    second = read_cpu_times()
    if first is not None and second is not None:
        assert all(a <= b for a, b in zip(first, second, strict=True))
    (tmp_path / "stat").write_text("cpu  100 20 3 9999 9999 4 5 6 7 8\ncpu0 1 1 1\n")
    monkeypatch.setattr(meter, "STAT", tmp_path / "stat")
    monkeypatch.setattr("os.sysconf", lambda name: 2)
    assert read_cpu_times().machine == (100 + 20 + 3 + 4 + 5 + 6) / 2
    monkeypatch.setattr(meter, "STAT", tmp_path / "none")
    assert BusyMachine(2, cores=2).warning(1.0) is None
