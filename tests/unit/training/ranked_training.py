"""A toy training that several processes do together; as a program one of them: FOLDER UPDATES WHAT."""

import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from mtkit.training import heartbeat
from mtkit.training.distributed import ALONE, Ranks, joined
from mtkit.training.optimiser import SGDConfig
from tests.unit.training.toy_training import ToyLoader, toy_batch, toy_config, toy_learner, toy_train

MICRO_BATCHES = 3  # of an update: of two ranks one is idle at the end


@dataclass
class RankedLoader(ToyLoader):
    """Micro-batch j belongs to rank j % world_size, and an idle rank has an empty one."""

    micro_batches: int = MICRO_BATCHES
    ranks: Ranks = ALONE

    def updates(self, start):
        for update in super().updates(start):
            rounds = -(-len(update.batches) // self.ranks.world_size)
            padded = update.batches + [toy_batch(1, 0)] * (rounds * self.ranks.world_size - len(update.batches))
            yield replace(update, batches=padded[self.ranks.rank :: self.ranks.world_size])


def ranked_config(**keys):
    keys = {"moving_average": None, "optimiser": SGDConfig(learning_rate=0.5), "log_every": 1, **keys}
    return toy_config(**keys)


def ranked_train(folder: Path, config, ranks: Ranks, dropout=0.2, loader=None):
    learner = replace(toy_learner(config, dropout), ranks=ranks)
    return toy_train(folder, config, learner=learner, loader=loader or RankedLoader(ranks=ranks))


class Stopping(RankedLoader):
    """Does something to itself at the fourth update."""

    def updates(self, start):
        for number, update in enumerate(super().updates(start)):
            if number == 3:
                happen(sys.argv[3], self.ranks)
            yield update


def happen(what, ranks):
    if what == "signal" and ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    elif what == "raise" and ranks.rank == 1:
        raise ValueError("no reason")
    elif what == "stop" and ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    elif what == "kill" and ranks.rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    torch.set_num_threads(1)
    heartbeat.EVERY, heartbeat.SILENCE = 0.2, 8.0 if sys.argv[3] in ("stop", "kill") else 60.0
    folder, updates = Path(sys.argv[1]), int(sys.argv[2])
    with joined() as ranks:
        own = folder if ranks.is_first else folder / f"rank{ranks.rank}"
        own.mkdir(parents=True, exist_ok=True)
        config = ranked_config(max_updates=updates)
        if not ranks.is_first:  # its log is its own, checkpoints are shared
            (own / "checkpoints").symlink_to(folder / "checkpoints")
        result = ranked_train(own, config, ranks, loader=Stopping(ranks=ranks))
        print(ranks.rank, result.update, len(result.weights), flush=True)
