"""Workers on a Ray cluster give the lines of one process, in order, also when a worker is lost."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtkit.cli import entry
from mtkit.errors import DataError, ReadWriteError, UsageError
from mtkit.translate import workers
from mtkit.translate.ray_pool import RETRIES, RayCluster, RayPool
from mtkit.translate.translation import Translation

LINES = [f"line {number}" for number in range(40)]


class Capitals:
    """Translates to capitals; `die` ends its process, once for each file that is missing."""

    compute_type, can_fork = "", False

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DataError(f"{folder}: damaged")
        self.folder = folder

    def translate(self, lines: Any, *, first: int = 1) -> Iterator[Translation]:
        for number, line in enumerate(lines, start=first):
            mark = self.folder / line
            if line.startswith("die") and not (line.startswith("die once") and mark.exists()):
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if line == "fail":
                raise DataError(f"line {number}: fails")
            yield Translation(line=number, hyp=line.upper())


def square(folder: Path, number: int) -> int:
    """The square; for 3 the process ends, the first time."""
    if number == 3 and not (mark := folder / "mark").exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


class LostError(Exception):
    pass


class StandIn:
    """Actors of this process: an answer is computed when it is asked for, the last one first."""

    exceptions = SimpleNamespace(RayError=LostError)

    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []
        self.is_running = False

    def init(self, **options: Any) -> None:
        self.started.append(options)
        self.is_running = True

    def shutdown(self) -> None:
        self.is_running = False

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 3.0}

    def remote(self, **options: Any) -> Any:
        assert options == {"num_cpus": 1, "max_restarts": RETRIES, "max_task_retries": RETRIES}
        return lambda cls: SimpleNamespace(remote=lambda *args: self._actor(cls(*args)))

    def _actor(self, instance: Any) -> Any:
        call = lambda *args: partial(instance.translate, *args)  # noqa: E731
        return SimpleNamespace(translate=SimpleNamespace(remote=call))

    def wait(self, futures: list[Any]) -> tuple[list[Any], list[Any]]:
        return futures[-1:], futures[:-1]

    def get(self, future: Any) -> Any:
        if "lost" in future.args[0]:
            raise LostError("The actor died.\nmore")
        return future()


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    monkeypatch.setattr(workers, "CHUNK_LINES", 3)
    monkeypatch.setattr("mtkit.translate.ray_pool.set_num_threads", lambda count: None)
    return stand_in


def translated(load: Any, lines: list[str], cluster: RayCluster, **options: Any) -> list[str]:
    with RayPool(load, cluster, **options) as pool:
        translations = list(pool.translate(lines, first=5))
    assert [each.line for each in translations] == [*range(5, 5 + len(lines))]
    return [each.hyp for each in translations]


@pytest.mark.parametrize("flush_every", [None, 7])
def test_lines_come_in_order(ray: StandIn, tmp_path: Path, flush_every: int | None) -> None:
    load = partial(Capitals, tmp_path)
    assert translated(load, LINES, RayCluster(), flush_every=flush_every) == [line.upper() for line in LINES]
    assert ray.started[0]["_node_ip_address"] == "127.0.0.1"
    assert not ray.is_running
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_errors_come_after_the_lines_before_them(ray: StandIn, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="damaged"):
        translated(partial(Capitals, tmp_path / "none"), LINES, RayCluster(None, 2))
    for bad, error, problem in (
        ("fail", DataError, "line 12: fails"),
        ("lost", ReadWriteError, "lost 4 times with the same lines: The actor died"),
    ):
        found = []
        with RayPool(partial(Capitals, tmp_path), RayCluster(None, 2)) as pool, pytest.raises(error, match=problem):
            found.extend(pool.translate([*LINES[:11], bad, *LINES[11:]]))
        assert [each.hyp for each in found] == [line.upper() for line in LINES[: 11 if bad == "fail" else 9]]


def test_addresses(ray: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for address, error, problem in (
        ("host", UsageError, "HOST:PORT is expected"),
        ("127.0.0.1:1", ReadWriteError, "no cluster of Ray"),
        ("127.0.0.1:99999", ReadWriteError, "no cluster of Ray"),
    ):
        with pytest.raises(error, match=problem):
            RayPool(partial(Capitals, tmp_path), RayCluster(address))
    assert ray.started == []
    text = tmp_path / "text"
    text.write_text("a\n")
    for words, problem in (
        (["--address", "host:1"], "add --engine ray"),
        (["--engine", "ray", "--threads", "2"], "has one thread"),
    ):
        assert entry.execute(["translate", "model", str(text), *words]) == 2
        assert problem in capsys.readouterr().err


@pytest.mark.whole
def test_a_cluster_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(workers, "CHUNK_LINES", 3)
    lines = [*LINES[:20], "die once", *LINES[20:]]
    load = partial(Capitals, tmp_path)
    assert translated(load, lines, RayCluster(None, 2)) == [line.upper() for line in lines]
    assert (tmp_path / "die once").exists()
    with pytest.raises(ReadWriteError, match="lost 4 times with the same lines"):
        translated(load, [*LINES[:20], "die", *LINES[20:]], RayCluster(None, 2))
    assert list(RayCluster(None, 2).map(partial(square, tmp_path), range(8))) == [n * n for n in range(8)]
    assert (tmp_path / "mark").exists()
