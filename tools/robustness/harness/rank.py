"""One rank of a training on several processes: mtkit with a heartbeat that is quick enough for a test.

As a program: `python -m tools.robustness.harness.rank EVENT UPDATE WORD...`; the event befalls the last rank at
the start of an update. The other ranks must end within a minute.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from torch._C._distributed_c10d import TCPStore

from mtkit.cli import entry
from mtkit.corpus.order.loader import Loader
from mtkit.training import distributed

MINUTE = 60.0
SLOW = 3.0  # seconds that a slow rank sleeps: three timeouts' worth of nothing but its heartbeat


def main(event: str, update: str, *words: str) -> NoReturn:
    """Run a command line as the rank that the environment says."""
    distributed.INTERVAL, distributed.TIMEOUT = 0.2, float(os.environ.get("HEARTBEAT_TIMEOUT", "3"))
    is_victim = int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1
    if is_victim and event != "none":
        _attack(event, int(update))
    sys.argv = ["mtkit", *words]
    entry.main()


def host_store(port: str) -> NoReturn:
    """Host the store of a job, as torchrun does, until this process is killed."""
    store = TCPStore("localhost", int(port), is_master=True, wait_for_workers=False)
    while store is not None:
        time.sleep(MINUTE)


def _attack(event: str, update: int) -> None:
    real = Loader.updates

    def updates(self: Loader, *args: Any, **keys: Any) -> Iterator[Any]:
        for number, data in enumerate(real(self, *args, **keys), 1):
            if number == update:
                _happen(event)
            yield data

    Loader.updates = updates  # type: ignore[method-assign]


def _happen(event: str) -> None:
    if event == "slow":
        time.sleep(SLOW)
    else:
        os.kill(os.getpid(), {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}[event])


if __name__ == "__main__":
    main(*sys.argv[1:])
