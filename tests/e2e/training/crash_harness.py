"""Program that trains and is killed with signal 9 repeatedly, half of the times during a save, until it finishes.

`python crash_harness.py FOLDER KILLS SEED` prints the exit status of each process. The processes are forked, so that
none has to import anything.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from tests.toy.training import toy_config, toy_train


def config():
    return toy_config(max_updates=60, checkpoint_every=3, validate_every=7, log_every=2)


def start(folder: Path) -> int:
    """Start a training in `folder`; return its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            toy_train(folder, config())
        except BaseException as error:
            print(f"failed: {error!r}", flush=True)
            os._exit(1)
        os._exit(0)
    return pid


def is_saving(folder: Path, pid: int) -> bool:
    """True if this process is; earlier ones may have left temporary files of theirs."""
    return any((folder / "checkpoints").glob(f".*.{pid}.tmp"))


def seconds_of_a_training(folder: Path) -> float:
    """Duration of a training that is not killed."""
    begin = time.monotonic()
    os.waitpid(start(folder), 0)
    return time.monotonic() - begin


def kill(pid: int, folder: Path, rng: random.Random, within: float) -> int | None:
    """Kill a training at a random moment; return its exit status, 0 if it ended before."""
    inside, until = rng.random() < 0.5, time.monotonic() + rng.uniform(0.0, within)
    while time.monotonic() < until or (inside and not is_saving(folder, pid)):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return 0
        time.sleep(0.0002)
    if inside:
        time.sleep(rng.uniform(0.0, 0.004))
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(folder: Path, kills: int, seed: int) -> int:
    torch.set_num_threads(1)
    rng = random.Random(seed)
    # relative to this machine's speed, so that most kills come after some saves
    within = seconds_of_a_training(folder / "not-killed") / 5
    for number in range(kills):
        status = kill(start(folder), folder, rng, within)
        print(f"process {number}: {status}, {sorted(os.listdir(folder / 'checkpoints'))}", flush=True)
        if status not in (0, -signal.SIGKILL):
            return 1
    return os.waitstatus_to_exitcode(os.waitpid(start(folder), 0)[1])


if __name__ == "__main__":
    target = Path(sys.argv[1])
    (target / "checkpoints").mkdir(parents=True, exist_ok=True)
    sys.exit(main(target, int(sys.argv[2]), int(sys.argv[3])))
