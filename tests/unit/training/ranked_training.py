"""A small training that several processes do together; as a program one of them: FOLDER UPDATES PARALLEL WHAT."""

import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from mtkit.layers.feed_forward.mixture_of_experts import ExpertsConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.distributed import heartbeat
from mtkit.training.distributed.process_group import ALONE, Ranks, joined
from mtkit.training.learner import build_learner
from mtkit.training.monitoring.validation import Share, Validation, interleaved
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.optimisers.torch_optimisers import SGDConfig
from tests.unit.training.toy_training import VOCAB, TeacherForced, ToyLoader, toy_batch, toy_config, toy_train

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


class Judging:
    """Each rank takes its share of five batches, and has one thing to say."""

    def share(self, model, update, ranks):
        batches = [toy_batch(seed, 4) for seed in range(5)][ranks.rank :: ranks.world_size]
        with torch.no_grad():
            found = [model(batch, CrossEntropy(TeacherForced(), 0.0)) for batch in batches]
        nats = [float(losses.sum) for losses in found]
        return Share(nats, sum(losses.tokens for losses in found), [f"zwölf, {ranks.rank}"])

    def join(self, shares):
        nats, tokens = interleaved([share.nats for share in shares]), sum(share.tokens for share in shares)
        assert [share.hyps for share in shares] == [[f"zwölf, {rank}"] for rank in range(len(shares))]
        assert len(nats) == 5
        return Validation(sum(nats) / tokens)


def ranked_config(**keys):
    """With momentum, so that checkpoints hold gradients too."""
    optimiser = SGDConfig(learning_rate=0.5, momentum=0.5)
    keys = {"optimiser": optimiser, "log_every": 1, "log_parts": True, "checkpoint_every": 20, **keys}
    return toy_config(**keys)


LEFT_OUT = {"layer_drop": 0.6, "feed_forward": ExpertsConfig(num_experts=2, every=1)}


def ranked_train(folder: Path, config, ranks: Ranks, *, loader=None, keys=None):
    """Sizes that neither two nor four ranks can divide."""
    torch.manual_seed(config.seed)
    sizes = {"d_model": 6, "num_heads": 2, "d_ff": 11, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.2}
    model = TransformerConfig(**(sizes | (keys or {})))
    objective = CrossEntropy(TeacherForced(), config.label_smoothing)
    learner = build_learner(model.build(VOCAB, VOCAB), objective, config=config, ranks=ranks)
    loader = loader or RankedLoader(ranks=ranks)
    return toy_train(folder, config, learner=learner, loader=loader, validate=Judging())


class Stopping(RankedLoader):
    """Does something to itself at the fourth update."""

    def updates(self, start):
        for number, update in enumerate(super().updates(start)):
            if number == 3:
                happen(sys.argv[4], self.ranks)
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


class LateSignal:
    """To rank 1 when it has made its fourth update, where the ranks have just told each other of signals."""

    def __init__(self, ranks):
        self.ranks, self.updates = ranks, 0
        register_optimizer_step_post_hook(self)

    def __call__(self, *step):
        self.updates += 1
        if self.updates == 4:
            happen("signal", self.ranks)


if __name__ == "__main__":
    torch.set_num_threads(1)
    heartbeat.EVERY, heartbeat.SILENCE = 0.2, 8.0 if sys.argv[4] in ("stop", "kill") else 60.0
    folder, updates = Path(sys.argv[1]), int(sys.argv[2])
    with joined() as ranks:
        own = folder if ranks.is_first else folder / f"rank{ranks.rank}"
        own.mkdir(parents=True, exist_ok=True)
        config = ranked_config(max_updates=updates, parallel=sys.argv[3])
        if sys.argv[4] == "late signal":
            LateSignal(ranks)
        if not ranks.is_first:  # its log is its own, checkpoints are shared
            (own / "checkpoints").symlink_to(folder / "checkpoints")
        keys = LEFT_OUT if sys.argv[4] == "drop layers" else None
        result = ranked_train(own, config, ranks, loader=Stopping(ranks=ranks), keys=keys)
        print(ranks.rank, result.update, len(result.weights), flush=True)
