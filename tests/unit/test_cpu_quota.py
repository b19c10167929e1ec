"""CPU time of a container: both versions of control groups, nested groups, and files that are no numbers."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from mtkit import hardware
from mtkit.hardware import available_cores, limit_threads


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    return 16


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_smallest_quota_counts(tmp_path: Path, cores: int) -> None:
    rng = random.Random(1)
    for number in range(200):
        cgroup, own = tmp_path / str(number), tmp_path / f"own{number}"
        depth = rng.randint(0, 3)
        folders = [cgroup.joinpath(*"abc"[:level]) for level in range(depth + 1)]
        own.write_text(f"1:name=systemd:/x\n0::/{'/'.join('abc'[:depth])}\n")
        quotas = [rng.choice([None, "max", rng.randint(1_000, 3_000_000)]) for _ in folders]
        period = rng.choice([1_000, 100_000, 50_000])
        for folder, quota in zip(folders, quotas, strict=True):
            if quota is not None:
                write(folder / "cpu.max", f"{quota} {period}\n")
        write(cgroup.joinpath(*"abc"[: depth + 1], "below", "cpu.max"), f"1 {period}\n")  # of another process
        expected = [-(-quota // period) for quota in quotas if isinstance(quota, int)]
        assert available_cores(cgroup, own) == min([cores, *expected])


@pytest.mark.parametrize(("quota", "expected"), [("-1\n", 16), ("150000\n", 2), ("50000\n", 1), ("", 16), ("x", 16)])
def test_version_1(tmp_path: Path, cores: int, quota: str, expected: int) -> None:
    write(tmp_path / "cpu" / "cpu.cfs_quota_us", quota)
    write(tmp_path / "cpu" / "cpu.cfs_period_us", "100000\n")
    write(tmp_path / "own", "4:cpu,cpuacct:/docker/1\n")
    assert available_cores(tmp_path, tmp_path / "own") == expected


@pytest.mark.parametrize("content", ["", "max", "1", "a b", "5 0", "max max", "\xff"])
def test_other_content_is_no_quota(tmp_path: Path, cores: int, content: str) -> None:
    (tmp_path / "cpu.max").write_bytes(content.encode("latin1"))
    write(tmp_path / "own", "0::/\n")
    assert available_cores(tmp_path, tmp_path / "own") == cores
    assert available_cores(tmp_path / "nothing", tmp_path / "none") == cores


def test_threads_follow_the_quota_unless_they_are_set(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "available_cores", lambda: 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    limit_threads()
    assert os.environ["OMP_NUM_THREADS"] == "5"
    monkeypatch.delenv("OMP_NUM_THREADS")
    limit_threads()
    assert os.environ.pop("OMP_NUM_THREADS") == "3"
    monkeypatch.setattr(hardware, "available_cores", lambda: 16)
    limit_threads()
    assert "OMP_NUM_THREADS" not in os.environ
