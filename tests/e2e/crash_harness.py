"""A program: train, be killed with signal 9 again and again, half of the times inside a save, and end all the same.

`python crash_harness.py FOLDER KILLS SEED`; prints what each life came to. The processes are forked, so that a life
does not begin with three seconds of imports.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from tests.unit.training.toy_training import toy_config, toy_train


def config():
    return toy_config(max_updates=60, checkpoint_every=3, validate_every=7, log_every=2)


def live(folder: Path) -> int:
    """The pid of a new training in `folder`."""
    pid = os.fork()
    if pid == 0:
        try:
            toy_train(folder, config())
        except BaseException as error:
            print(f"died of {error!r}", flush=True)
            os._exit(1)
        os._exit(0)
    return pid


def is_saving(folder: Path, pid: int) -> bool:
    """Whether this life is, whatever others before it left behind."""
    return any((folder / "checkpoints").glob(f".*.{pid}.tmp"))


def seconds_of_a_life(folder: Path) -> float:
    """Of one that nobody ends."""
    begin = time.monotonic()
    os.waitpid(live(folder), 0)
    return time.monotonic() - begin


def kill(pid: int, folder: Path, coin: random.Random, within: float) -> int | None:
    """Kill at a random moment; the exit status if the training ended before."""
    inside, until = coin.random() < 0.5, time.monotonic() + coin.uniform(0.0, within)
    while time.monotonic() < until or (inside and not is_saving(folder, pid)):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return 0
        time.sleep(0.0002)
    if inside:
        time.sleep(coin.uniform(0.0, 0.004))
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(folder: Path, kills: int, seed: int) -> int:
    torch.set_num_threads(1)
    coin = random.Random(seed)
    # however fast this machine is, some saves come before most kills
    within = seconds_of_a_life(folder / "unharmed") / 5
    for number in range(kills):
        status = kill(live(folder), folder, coin, within)
        print(f"life {number}: {status}, {sorted(os.listdir(folder / 'checkpoints'))}", flush=True)
        if status not in (0, -signal.SIGKILL):
            return 1
    return os.waitstatus_to_exitcode(os.waitpid(live(folder), 0)[1])


if __name__ == "__main__":
    target = Path(sys.argv[1])
    (target / "checkpoints").mkdir(parents=True, exist_ok=True)
    sys.exit(main(target, int(sys.argv[2]), int(sys.argv[3])))
