"""Workers of a model as the server sees them: started, replaced when they die, ended when their model is unloaded."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from mtkit.errors import ComputeError
from mtkit.hardware import memory_of
from mtkit.serve.fair_queue import FairQueue, QueuedText
from mtkit.serve.metrics import ServerMetrics
from mtkit.serve.processes.messages import receive_async, send_async

BATCH_SECONDS = 0.25  # of computation: those who come meanwhile wait as long
FIRST_RATE = 10_000.0  # characters a second of a worker, until it is measured
MIN_BATCH, MAX_BATCH = 600, 12_000  # characters
MAX_TEXTS = 256
# Workers that end with a text alone, after which it gets an error. A worker that somebody kills looks the same, and one
# is killed a few times in a row at most.
MAX_FAILURES = 6
RETRY_SECONDS = 0.5  # after which a process that cannot be started is tried again, then twice as long each time
MAX_RETRY_SECONDS = 30.0
LOOK_SECONDS = 1.0  # between looks whether somebody still waits for a batch; most take less
MEASURED_SECONDS = 1.0  # since memory was measured, which takes milliseconds


def start_process(module: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a module as a process; return it, and a socket that does not block, whose other end the process gets."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    folder = str(Path(__file__).parents[3])
    paths = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
        )
    return process, ours


class ModelPool:
    """The processes of one version of a model, which take batches from a queue.

    Attributes:
        busy: batches that are being translated.
        rate: characters that a worker translates in a second.
        failure: why no process can be started now; None: one can.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        queue: FairQueue,
        workers: int,
        metrics: ServerMetrics,
        *,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Take the settings, as the process receives them, and what receives messages for the log."""
        self._settings, self._queue, self._num_workers, self._metrics = settings, queue, workers, metrics
        self._tasks: list[asyncio.Task[None]] = []
        self._pids: set[int] = set()
        self._retired = asyncio.Event()
        self._forking = asyncio.Lock()
        self._bytes, self._measured = 0, -math.inf
        self.busy, self.rate = 0, FIRST_RATE
        self._note, self.failure = note, cast("str | None", None)

    async def start(self) -> None:
        """Start the processes.

        Raises:
            ComputeError: the model cannot be loaded.
        """
        await self._start_process()
        count = self._num_workers if self._can_fork else 1
        self._tasks = [asyncio.create_task(self._work()) for _ in range(count)]

    async def _start_process(self) -> None:
        self._process, self._control = start_process("mtkit.serve.processes.worker")
        try:
            await send_async(self._control, self._settings)
            answer = await receive_async(self._control)
        except (EOFError, OSError):
            answer = {"error": f"its process ended with code {await asyncio.to_thread(self._process.wait)}"}
        except BaseException:
            self._end()
            raise
        if "error" in answer:
            self._end()
            raise ComputeError(f"{self._settings['model']}: {answer['error']}")
        self._can_fork = answer["can_fork"]

    async def _start_worker(self) -> tuple[socket.socket, int]:
        """A socket of a new worker, and its process."""
        async with self._forking:
            try:
                return await self._fork()
            except (EOFError, OSError):  # the process of the model has ended too
                self._end()
                await self._start_process()
                return await self._fork()

    async def _fork(self) -> tuple[socket.socket, int]:
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"w"], [theirs.fileno()])
        ours.setblocking(False)
        try:
            return ours, (await receive_async(self._control))["pid"]
        except BaseException:
            ours.close()
            raise

    async def _work(self) -> None:
        """Translate batches with one worker, and with the next one when it dies, until the pool is retired."""
        seconds = RETRY_SECONDS
        while not self._retired.is_set():
            try:
                sock, pid = await self._start_worker()
            except (ComputeError, EOFError, OSError) as error:
                self._set_failure(str(error) or "its process ends at once")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._retired.wait(), seconds)
                seconds = min(2 * seconds, MAX_RETRY_SECONDS)
                continue
            self._set_failure(None)
            seconds = RETRY_SECONDS
            self._pids.add(pid)
            try:
                while await self._translate_batch(sock, pid):
                    pass
            finally:
                sock.close()
                self._pids.discard(pid)

    def _set_failure(self, failure: str | None) -> None:
        """Store why no process can be started, and report what is new."""
        if failure is not None and failure != self.failure:
            self._note(f"{self._settings['model']}: cannot be started again, so that its requests wait: {failure}")
        elif failure is None and self.failure is not None:
            self._note(f"{self._settings['model']}: started again")
        self.failure = failure

    async def _translate_batch(self, sock: socket.socket, pid: int) -> bool:
        """Translate the next batch; False if the worker has died or is not needed any longer.

        A worker whose requests were all dropped is ended: a new one costs milliseconds.
        """
        batch: list[QueuedText] = []
        while not batch:
            if self._retired.is_set():  # what waits is for the next version
                return False
            # a worker's share of what waits, at most what takes it BATCH_SECONDS: shares shrink as the queue empties,
            # so that no worker is idle while another translates for all (guided self-scheduling, Polychronopoulos &
            # Kuck 1987, https://doi.org/10.1109/TC.1987.5009495)
            most = min(max(self.rate * BATCH_SECONDS, MIN_BATCH), MAX_BATCH)
            batch = self._queue.take(int(min(most, self._queue.waiting / len(self._tasks))), MAX_TEXTS)
            if not batch:
                await self._queue.wait()
        loop, begun = asyncio.get_running_loop(), time.perf_counter()
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            if self._can_fork and all(job.done.cancelled() for job, _ in batch):
                os.kill(pid, signal.SIGKILL)
            else:
                timer = loop.call_later(LOOK_SECONDS, look)

        timer = loop.call_later(LOOK_SECONDS, look)
        self.busy += 1
        try:
            lines = [job.texts[index] for job, index in batch]
            await send_async(sock, {"options": batch[0][0].options, "lines": lines})
            results = await receive_async(sock)
        except (EOFError, OSError):
            self._metrics.lost_workers.inc()
            self._lose(batch)
            return False
        except BaseException:
            self._queue.put_back(batch)
            raise
        finally:
            timer.cancel()
            self.busy -= 1
        for (job, index), result in zip(batch, results, strict=True):
            job.accept(index, result)
        seconds, characters = time.perf_counter() - begun, sum(len(text) for text, _ in lines)
        self.rate += 0.5 * (characters / seconds - self.rate)
        self._metrics.batch_texts.observe(len(batch))
        self._metrics.batch_seconds.observe(seconds)
        return not self._retired.is_set()

    def _lose(self, batch: Sequence[QueuedText]) -> None:
        """Put a batch back whose worker has died; a text that has lost too many workers alone is the cause."""
        for job in {job for job, _ in batch}:
            job.failures += 1
        if len(batch) == 1:
            job, index = batch[0]
            job.blamed[index] += 1
            if job.blamed[index] >= MAX_FAILURES:
                job.accept(index, {"error": "the process that translates this text has ended each time"})
                return
        self._queue.put_back(batch)

    def memory(self) -> int:
        """Bytes of all processes, as they were at most MEASURED_SECONDS ago; 0 if that is unknown."""
        if time.monotonic() - self._measured > MEASURED_SECONDS:
            self._measured = time.monotonic()
            with suppress(OSError):
                self._bytes = memory_of([self._process.pid, *self._pids])
        return self._bytes

    async def retire(self) -> None:
        """End the processes when they have finished what they translate."""
        self._retired.set()
        self._queue.wake()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._end()

    def _end(self) -> None:
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0.05)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
