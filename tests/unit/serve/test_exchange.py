"""Models that are exchanged or unloaded, and workers that are ended, while requests come and go."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from mtkit.errors import ComputeError
from mtkit.serve.fair_queue import FairQueue, QueuedRequest
from mtkit.serve.metrics import ServerMetrics
from mtkit.serve.processes.pool import ModelPool
from mtkit.serve.registry import Registry, ServedModel

TURNS = 20  # of the event loop, after which nothing is left to do


class _Pool(ModelPool):
    """A pool whose workers are sockets that never answer."""

    def __init__(self, queue: FairQueue, ended: list[ModelPool]) -> None:
        super().__init__({}, queue, 1, ServerMetrics())
        self._ended = ended
        self._others: list[socket.socket] = []

    async def _start_process(self) -> None:
        self._can_fork = True

    async def _fork(self) -> tuple[socket.socket, int]:
        ours, theirs = socket.socketpair()
        self._others.append(theirs)
        ours.setblocking(False)
        return ours, 0

    def memory(self) -> int:
        return 100

    async def retire(self) -> None:
        await asyncio.sleep(0)
        await super().retire()

    def _end(self) -> None:
        self._ended.append(self)
        for each in self._others:
            each.close()


async def let_all_run() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def test_workers_of_a_retired_version_take_nothing_more() -> None:
    async def run() -> tuple[int, int]:
        queue, ended = FairQueue(), cast("list[ModelPool]", [])
        pool = _Pool(queue, ended)
        await pool.start()
        await let_all_run()  # its worker waits
        end = asyncio.create_task(pool.retire())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        queue.add(QueuedRequest("client", {}, [("text", "")]))  # before the worker is awake
        await let_all_run()
        counts = queue.count, len(ended)
        end.cancel()
        return counts

    assert asyncio.run(run()) == (1, 1)


def test_a_worker_whose_texts_nobody_waits_for_is_replaced(monkeypatch: Any) -> None:
    async def run() -> tuple[list[int], list[int], int]:
        queue, ended = FairQueue(), cast("list[ModelPool]", [])
        pool = _Pool(queue, ended)
        counts: list[int] = []
        killed: list[int] = []

        def kill(pid: int, number: int) -> None:
            killed.append(pid)
            pool._others[-1].close()

        monkeypatch.setattr("mtkit.serve.processes.pool.os.kill", kill)
        monkeypatch.setattr("mtkit.serve.processes.pool.LOOK_SECONDS", 0.0)
        jobs = [QueuedRequest(name, {}, [("text", "")]) for name in ("one", "other")]
        for job in jobs:
            queue.add(job)
        await pool.start()
        await let_all_run()
        for job in jobs:
            queue.remove(job)
            await let_all_run()
            counts.append(len(killed))
        await pool.retire()
        return counts, killed, queue.count

    assert asyncio.run(run()) == ([0, 1], [0], 0)


class _Registry(Registry):
    """A registry of three models, of which two fit into the memory."""

    def __init__(self) -> None:
        self.ended: list[ModelPool] = []
        self.started = 0
        self._settings = cast("Any", SimpleNamespace(max_memory=250))
        self._memory = asyncio.Lock()
        metadata = cast("Any", None)
        self.models = [ServedModel(name, Path(name), metadata, name, FairQueue()) for name in "abc"]

    async def _start(self, model: ServedModel) -> ModelPool:
        self.started += 1
        await asyncio.sleep(0)
        return _Pool(model.queue, self.ended)


def test_a_model_that_is_needed_again_while_it_is_unloaded_has_one_pool(monkeypatch: Any) -> None:
    monkeypatch.setattr("mtkit.serve.registry._estimated_bytes", lambda model: 100)

    async def run() -> tuple[int, int]:
        registry = _Registry()
        first, second, third = registry.models
        await registry.load(first)
        await registry.load(third)
        other = asyncio.create_task(registry.load(second))
        await asyncio.sleep(0)
        assert first.pool is None
        first.queue.add(QueuedRequest("client", {}, [("text", "")]))
        await asyncio.gather(other, registry.load(first))
        return registry.started - len(registry.ended), sum(each.pool is not None for each in registry.models)

    assert asyncio.run(run()) == (2, 2)


def test_a_model_that_cannot_be_started_again_says_so_once(monkeypatch: Any) -> None:
    monkeypatch.setattr("mtkit.serve.processes.pool.RETRY_SECONDS", 0.001)

    async def run() -> tuple[list[str], list[str | None]]:
        notes: list[str] = []
        pool = _Pool(FairQueue(), [])
        pool._settings, pool._note = {"model": "runs/m"}, notes.append
        reasons = ["no memory", "no memory", "no memory", "no such folder", "no such folder"]
        states: list[str | None] = []

        async def start_worker() -> tuple[socket.socket, int]:
            states.append(pool.failure)
            if reasons:
                raise ComputeError(reasons.pop(0))
            return await pool._fork()

        pool._start_worker = start_worker  # type: ignore[method-assign]
        await pool.start()
        while len(states) < 6:
            await asyncio.sleep(0.001)
        await let_all_run()
        states.append(pool.failure)
        await pool.retire()
        return notes, states

    notes, states = asyncio.run(run())
    assert states == [None, *["no memory"] * 3, *["no such folder"] * 2, None]
    assert notes == [
        "runs/m: cannot be started again, so that its requests wait: no memory",
        "runs/m: cannot be started again, so that its requests wait: no such folder",
        "runs/m: started again",
    ]


def test_a_pool_that_waits_to_try_again_ends_at_once(monkeypatch: Any) -> None:
    monkeypatch.setattr("mtkit.serve.processes.pool.RETRY_SECONDS", 3600.0)

    async def run() -> tuple[int, bool, int, str | None]:
        ended: list[ModelPool] = []
        pool = _Pool(FairQueue(), ended)
        pool._settings = {"model": "runs/m"}
        attempts = 0

        async def start_worker() -> tuple[socket.socket, int]:
            nonlocal attempts
            attempts += 1
            raise ComputeError("no memory")

        pool._start_worker = start_worker  # type: ignore[method-assign]
        await pool.start()
        await let_all_run()
        end = asyncio.create_task(pool.retire())
        await let_all_run()
        state = attempts, end.done(), len(ended), pool.failure
        end.cancel()
        return state

    assert asyncio.run(run()) == (1, True, 1, "no memory")
