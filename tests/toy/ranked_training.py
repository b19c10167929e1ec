"""Small training on several processes. As a program, one of them: FOLDER UPDATES PARALLEL EVENT.

EVENT happens at the fourth update (`happen`), or is "layerdrop", a model that skips layers, or "gradients", which also
writes the gradients of single updates to FOLDER/gradients.pt.
"""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from mtkit.corpus.order.loader import DataPosition
from mtkit.errors import Interrupted
from mtkit.layers.variants.config import MixtureOfExpertsConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training import distributed
from mtkit.training.distributed import SINGLE_PROCESS, ProcessGroup, full_tensor, init_process_group
from mtkit.training.learner import build_learner
from mtkit.training.loop import accumulate_gradients
from mtkit.training.monitoring.validation import Validation, ValidationShard, unshard
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.optimisers.config import SGDConfig
from mtkit.training.weights import load_weights, weights
from tests.toy.training import VOCAB, TeacherForced, ToyLoader, toy_batch, toy_config, toy_train

MICRO_BATCHES = 3  # of an update; with two or four ranks, one is idle at the end
UPDATES = 20
# sizes that neither two nor four ranks can divide
SIZES = {"d_model": 6, "num_heads": 2, "d_ff": 11, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.2}
LAYERDROP = {"layerdrop": 0.6, "feed_forward": MixtureOfExpertsConfig(num_experts=2, moe_every=1)}


@dataclass
class RankedLoader(ToyLoader):
    """Deals micro-batch j to rank j % world_size; an idle rank gets an empty one."""

    micro_batches: int = MICRO_BATCHES
    ranks: ProcessGroup = SINGLE_PROCESS

    def updates(self, start):
        for update in super().updates(start):
            rounds = -(-len(update.batches) // self.ranks.world_size)
            padded = update.batches + [toy_batch(1, 0)] * (rounds * self.ranks.world_size - len(update.batches))
            yield replace(update, batches=padded[self.ranks.rank :: self.ranks.world_size])


class FiveBatchValidator:
    """Shards five batches; each rank also returns a text."""

    def validate_shard(self, model, update, ranks):
        batches = [toy_batch(seed, 4) for seed in range(5)][ranks.rank :: ranks.world_size]
        with torch.no_grad():
            losses = [model(batch, CrossEntropy(TeacherForced(), 0.0)) for batch in batches]
        return ValidationShard(
            [float(each.sum) for each in losses], [each.tokens for each in losses], [f"zwölf, {ranks.rank}"]
        )

    def merge_shards(self, shards):
        nats, tokens = unshard([shard.nats for shard in shards]), sum(sum(shard.tokens) for shard in shards)
        assert [shard.hyps for shard in shards] == [[f"zwölf, {rank}"] for rank in range(len(shards))]
        assert len(nats) == 5
        return Validation(sum(nats) / tokens)


def ranked_config(**keys):
    """With momentum, so that checkpoints hold gradients too."""
    optimiser = SGDConfig(learning_rate=0.5, momentum=0.5)
    keys = {"optimiser": optimiser, "log_every": 1, "log_gradient_norms": True, "checkpoint_every": UPDATES, **keys}
    return toy_config(**keys)


def ranked_learner(config, ranks: ProcessGroup, dtype: torch.dtype, model_keys=None):
    torch.manual_seed(config.seed)
    model = TransformerConfig(**(SIZES | (model_keys or {}))).build(VOCAB, VOCAB).to(dtype)
    return build_learner(model, CrossEntropy(TeacherForced(), config.label_smoothing), config=config, ranks=ranks)


def ranked_train(folder: Path, config, ranks: ProcessGroup, *, loader=None, model_keys=None):
    """Train in float64, see TRAINING_TOLERANCE in test_process_group.py."""
    learner = ranked_learner(config, ranks, torch.float64, model_keys)
    loader = loader or RankedLoader(ranks=ranks)
    return toy_train(folder, config, learner=learner, loader=loader, validate=FiveBatchValidator())


def gradients_of_updates(parallel: str, ranks: ProcessGroup) -> list[dict]:
    """Loss, gradient norm and full gradients of each update in float32, without clipping.

    Every update starts from random weights of its own, so that differences do not accumulate. A single process also
    returns the gradient of each micro-batch as `parts`.
    """
    learner = ranked_learner(ranked_config(parallel=parallel, clip_norm=None), ranks, torch.float32)
    learner.model.train()
    results = []
    for update, data in enumerate(islice(RankedLoader(ranks=ranks).updates(DataPosition()), UPDATES), 1):
        torch.manual_seed(update)
        load_weights(learner.model, weights(TransformerConfig(**SIZES).build(VOCAB, VOCAB)))
        tokens = learner.scored_tokens(data.batches)
        parts = []
        for losses in learner.losses(data.batches, update) if ranks.world_size == 1 else ():
            learner.start_update(update)
            learner.backward(losses.sum / tokens)
            parts.append({name: p.grad.clone() for name, p in learner.model.named_parameters()})
        learner.start_update(update)
        sums = accumulate_gradients(learner, data.batches, update)
        sums.merge_ranks([json.loads(text) for text in ranks.all_gather_text(json.dumps(sums.to_json()))])
        norm = float(learner.reduce_and_clip_gradients())
        gradients = {name: full_tensor(p.grad) for name, p in learner.model.named_parameters()}
        losses = {"loss": float(sums.by_name["loss"]), "tokens": sums.tokens}
        results.append({**losses, "norm": norm, "gradients": gradients, "parts": parts})
    return results


class InterruptingLoader(RankedLoader):
    """Makes EVENT happen when it yields the fourth update."""

    def updates(self, start):
        for number, update in enumerate(super().updates(start)):
            if number == 3:
                happen(sys.argv[4], self.ranks)
            yield update


def happen(event, ranks):
    if event.startswith("signal") and ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    elif event == "raise" and ranks.rank == 1:
        raise ValueError("no reason")
    elif event == "stop" and ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    elif event == "kill" and ranks.rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)


class LateSignal:
    """Sends rank 1 a signal after its fourth optimiser step, when the ranks have just synchronised their signals."""

    def __init__(self, ranks):
        self.ranks, self.updates = ranks, 0
        register_optimizer_step_post_hook(self)

    def __call__(self, *step):
        self.updates += 1
        if self.updates == 4:
            happen("signal", self.ranks)


def main(folder: Path, updates: int, parallel: str, event: str) -> None:
    torch.set_num_threads(1)
    distributed.INTERVAL, distributed.TIMEOUT = 0.2, 8.0 if event in ("stop", "kill") else 60.0
    with init_process_group() as ranks:
        own = folder if ranks.is_first else folder / f"rank{ranks.rank}"
        own.mkdir(parents=True, exist_ok=True)
        if not ranks.is_first:  # each rank has a log of its own, the checkpoints are shared
            (own / "checkpoints").symlink_to(folder / "checkpoints")
        if event == "late signal":
            LateSignal(ranks)
        config = ranked_config(max_updates=updates, parallel=parallel)
        model_keys = LAYERDROP if event == "layerdrop" else None
        try:
            result = ranked_train(own, config, ranks, loader=InterruptingLoader(ranks=ranks), model_keys=model_keys)
        except Interrupted:
            if event == "signal, slow end" and ranks.is_first:
                time.sleep(10 * distributed.INTERVAL)  # the heartbeat has seen by then that the other rank has ended
            raise
        print(ranks.rank, result.update, len(result.weights), flush=True)
        if event == "gradients":
            results = gradients_of_updates(parallel, ranks)
            torch.save(results, own / "gradients.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
