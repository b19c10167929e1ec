"""Finding the process of a training that died, stopped or failed, so that the others need not wait for it."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, TCPStore

from mtkit.errors import TrainingError

EVERY = 2.0  # seconds between two beats


SILENCE = 30.0  # seconds without one after which a process counts as lost


LEFT = "left"


class Heartbeat:
    """A thread that says in the job's store that this process lives, and looks whether the others do.

    A thread of its own beats also while the process computes, validates, saves or compiles. When another process has
    been silent for SILENCE seconds, or has said that it failed, this one names it on stderr and ends with the exit
    code of a failed training: a collective operation that waits for it would never return.
    """

    def __init__(self, rank: int, world_size: int) -> None:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=SILENCE))
        self._store = PrefixStore("mtkit", store)
        self._rank = rank
        self._others = [other for other in range(world_size) if other != rank]
        self._ended = threading.Event()
        self._store.set(f"name/{rank}", f"rank {rank} ({socket.gethostname()}, process {os.getpid()})")
        self._store.set(f"beat/{rank}", "0")
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def close(self, fault: str | None) -> None:
        """Say that this process leaves, and why if it failed."""
        self._ended.set()
        self._thread.join()
        try:
            self._store.set(f"beat/{self._rank}", LEFT if fault is None else f"failed: {fault}"[:2000])
        except RuntimeError:
            return  # the store is gone with the process that kept it

    def wait_for_a_loss(self) -> None:
        """Give the thread the time to find which process is lost, which ends this one."""
        self._thread.join(SILENCE + 3 * EVERY)

    def _run(self) -> None:
        seen = dict.fromkeys(self._others, ("", time.monotonic()))
        for number in range(1, sys.maxsize):
            if self._ended.wait(EVERY):
                return
            try:
                self._store.set(f"beat/{self._rank}", str(number))
                for other in self._others:
                    self._look(other, seen)
            except RuntimeError:  # the store's process is gone: that is the first one's, or torchrun's
                _end("the process that keeps the job together")

    def _look(self, other: int, seen: dict[int, tuple[str, float]]) -> None:
        beat = self._store.get(f"beat/{other}").decode()
        before, when = seen[other]
        if beat != before:
            seen[other] = (beat, time.monotonic())
        if beat.startswith("failed: "):
            _end(self._name(other), beat)
        elif beat == before and beat != LEFT and time.monotonic() - when > SILENCE:
            _end(self._name(other))

    def _name(self, rank: int) -> str:
        return self._store.get(f"name/{rank}").decode()


def _end(who: str, what: str = "is dead or stopped") -> None:
    sys.stderr.write(
        f"mtkit: error: {who} {what}; this process ends too, the same command goes on from the last save\n"
    )
    sys.stderr.flush()
    os._exit(TrainingError.exit_code)
