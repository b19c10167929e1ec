"""Detection of a training process that died, stopped or failed, so that the others do not wait for it."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, TCPStore

from mtkit.errors import ComputeError

INTERVAL = 2.0  # seconds between two heartbeats


TIMEOUT = 30.0  # seconds without a heartbeat after which a process counts as dead


DONE = "left"  # last heartbeat of a process that ended without an error


class Heartbeat:
    """Thread that writes this process's heartbeat to the job's store and checks those of the other processes.

    A thread of its own also runs while the process computes, validates, saves or compiles. When another process has
    sent no heartbeat for TIMEOUT seconds, or has reported an error, this process names it on stderr and exits with the
    exit code of a failed training: a collective operation that waits for it would never return.
    """

    def __init__(self, rank: int, world_size: int) -> None:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=TIMEOUT))
        self._store = PrefixStore("mtkit", store)
        self._rank = rank
        self._others = [other for other in range(world_size) if other != rank]
        self._ended = threading.Event()
        self._store.set(f"name/{rank}", f"rank {rank} ({socket.gethostname()}, process {os.getpid()})")
        self._store.set(f"beat/{rank}", "0")
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def close(self, error: str | None) -> None:
        """Stop the thread and report to the others that this process ends, with its error if it failed."""
        self._ended.set()
        self._thread.join()
        try:
            self._store.set(f"beat/{self._rank}", DONE if error is None else f"failed: {error}"[:2000])
        except RuntimeError:
            return  # the process that hosted the store has ended

    def wait_for_dead_rank(self) -> None:
        """Wait until the thread has found the dead process, which ends this one, or the time for that is over."""
        self._thread.join(TIMEOUT + 3 * INTERVAL)

    def _run(self) -> None:
        seen = dict.fromkeys(self._others, ("", time.monotonic()))
        for number in range(1, sys.maxsize):
            if self._ended.wait(INTERVAL):
                return
            try:
                self._store.set(f"beat/{self._rank}", str(number))
                for other in self._others:
                    self._check(other, seen)
            except RuntimeError:  # the store is hosted by the first process or by torchrun
                _exit("the process that hosts the job's store")

    def _check(self, other: int, seen: dict[int, tuple[str, float]]) -> None:
        beat = self._store.get(f"beat/{other}").decode()
        before, when = seen[other]
        if beat != before:
            seen[other] = (beat, time.monotonic())
        if beat.startswith("failed: "):
            _exit(self._name(other), beat)
        elif beat == before and beat != DONE and time.monotonic() - when > TIMEOUT:
            _exit(self._name(other))

    def _name(self, rank: int) -> str:
        return self._store.get(f"name/{rank}").decode()


def _exit(process: str, status: str = "is dead or stopped") -> None:
    sys.stderr.write(
        f"mtkit: error: {process} {status}; this process ends too, run the same command again to resume from the last "
        "checkpoint\n"
    )
    sys.stderr.flush()
    os._exit(ComputeError.exit_code)
