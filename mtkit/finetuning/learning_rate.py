"""Range test: the learning rate of a fine-tuning, by short trainings from the same weights on the same data.

Each trial is a whole training in small: warm-up, linear decay to 0, then the loss on own valid. The search goes from a
rate in the direction in which that loss falls, until it rises. Smith 2017 raises the rate within one training
(https://arxiv.org/abs/1506.01186); a loss of training text then shows what diverges, but not what generalises.

Adding the loss that general valid gains in a trial was tried: it chose half the rate, after which own valid had 0.22
nats a token more and general valid 0.14 less (docs/finetune.md).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from mtkit.corpus.order.loader import UpdateData
from mtkit.errors import ComputeError
from mtkit.hardware import limit_onednn_cache
from mtkit.pipeline.builders import build_loader, build_model
from mtkit.pipeline.estimate import seconds_on_free_cores
from mtkit.pipeline.open_run import Run
from mtkit.pipeline.prepare_corpus import PreparedCorpora
from mtkit.pipeline.train_stage import build_run_learner
from mtkit.pipeline.validator import build_validator
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.distributed import SINGLE_PROCESS
from mtkit.training.learner import Learner
from mtkit.training.loop import accumulate_gradients
from mtkit.training.optimisers.schedule import LinearConfig

RATE_TIMES_WIDTH = 0.05  # of the first rate: a tenth of that of a training from random weights
ADAPTER_FACTOR = 8.0  # fewer weights take larger steps
STEP = 2.0  # ratio of neighbouring rates
MAX_TRIALS = 7
TRIAL_SHARE = 0.02  # of the updates of the training
MIN_TRIAL, MAX_TRIAL = 20, 80  # updates; after 10 of them low rates look better than they are
WARM_UP_SHARE = 0.1
TIMED_UPDATES = 2


class RangeTest:
    """Short trainings of a run from the same weights.

    Args:
        run: with `training.max_updates` of the whole training.
        seconds: limit of the test, after which no trial begins; None: no limit.

    Attributes:
        seconds_per_update: on free cores, measured.
    """

    def __init__(
        self, run: Run, tokenizers: TokenizerPair, corpora: PreparedCorpora, *, seconds: float | None = None
    ) -> None:
        validation = replace(run.recipe.training.validation, metric="nll", sentences=0, command=None)
        training = replace(run.recipe.training, ema=None, validation=validation)
        self._run = replace(run, recipe=replace(run.recipe, training=training))
        self._tokenizers = tokenizers
        wanted = round(TRIAL_SHARE * self._run.recipe.training.max_updates)
        self.updates = min(max(wanted, MIN_TRIAL), MAX_TRIAL)
        learner = self._learner(1e-9, MIN_TRIAL)  # its first updates change nothing, and are timed
        self._validator = build_validator(self._run.recipe, corpora.valid, tokenizers, learner.precision)
        self._stream = build_loader(self._run.recipe, corpora.train, tokenizers).updates()
        self._data: list[UpdateData] = []
        limit_onednn_cache()
        start = time.perf_counter()
        timed = seconds_on_free_cores(partial(self._train, learner, TIMED_UPDATES), learner.device)
        self.seconds_per_update = timed / TIMED_UPDATES
        if seconds is not None:
            fitting = int(seconds / MAX_TRIALS / self.seconds_per_update)
            self.updates = max(MIN_TRIAL, min(self.updates, fitting))
        elapsed = time.perf_counter() - start
        self._trial_seconds = self.updates * elapsed / TIMED_UPDATES  # expected
        self._seconds_left = math.inf if seconds is None else seconds - elapsed

    def result(self) -> tuple[float, str]:
        """Run the trials, as long as there is time for another one; without time for two, the first rate is taken.

        Returns:
            The rate with the lowest validation loss, and a reason: the losses in nats per token, by rate.

        Raises:
            ComputeError: the loss is not finite at any rate, or memory runs out.
        """
        recipe, start, losses = self._run.recipe, time.perf_counter(), dict[float, float]()
        factor = 1.0 if recipe.training.adapter is None else ADAPTER_FACTOR
        first = factor * RATE_TIMES_WIDTH / recipe.model.d_model
        if 2 * self._trial_seconds > self._seconds_left:
            self._run.notify("range test", f"learning rate {first:.2g}; the budget has no time for trials")
            reason = "a tenth of the rate of a training from random weights: the budget has no time for a range test"
            return first, reason
        self._run.begin("range test", "short trainings measure learning rates")
        for rate, loss in search_rates(self._loss, first):
            losses[rate] = loss
            elapsed = time.perf_counter() - start
            if elapsed + elapsed / len(losses) > self._seconds_left:
                break
        best = min(losses, key=lambda rate: losses[rate])
        if not math.isfinite(losses[best]):
            raise ComputeError(
                "the range test found no learning rate with a finite loss; check the text, or state one: "
                "training.optimiser.learning_rate=1e-5"
            )
        elapsed = time.perf_counter() - start
        self._run.notify("range test", f"learning rate {best:.2g} after {len(losses)} trials in {elapsed:.0f} s")
        listed = ", ".join(f"{loss:.3f} at {rate:.2g}" for rate, loss in sorted(losses.items()))
        return best, f"range test of {self.updates} updates, validation loss {listed}"

    def _loss(self, rate: float) -> float:
        """Validation loss after a trial; infinite if the training diverged."""
        learner = self._learner(rate, self.updates)
        if not self._train(learner, self.updates):
            return math.inf
        with learner.eval_model() as model:
            shard = self._validator.validate_shard(model, self.updates, SINGLE_PROCESS)
        nll = self._validator.merge_shards([shard]).nll
        return nll if math.isfinite(nll) else math.inf

    def _learner(self, rate: float, updates: int) -> Learner:
        training = self._run.recipe.training
        trial = replace(
            training,
            optimiser=replace(training.optimiser, learning_rate=rate),
            schedule=LinearConfig(warmup=round(WARM_UP_SHARE * updates)),
            max_updates=updates,
        )
        run = replace(self._run, recipe=replace(self._run.recipe, training=trial))
        model = build_model(run.recipe, self._tokenizers, lambda stage, message: None)  # memory of one at a time
        return build_run_learner(run, model, self._tokenizers)

    def _train(self, learner: Learner, updates: int) -> bool:
        """Run some updates; return False if one is not finite."""
        learner.model.train()
        self._data += islice(self._stream, max(0, updates - len(self._data)))  # the same data in every trial
        for number, data in enumerate(self._data[:updates], start=1):
            learner.start_update(number)
            sums = accumulate_gradients(learner, data.batches, number)
            if not math.isfinite(sums.mean() + float(learner.reduce_and_clip_gradients())):
                return False
            learner.step(number)
        return True


def search_rates(loss: Callable[[float], float], first: float) -> Iterator[tuple[float, float]]:
    """(rate, loss) of rates in steps of STEP from `first`, in the direction in which the loss falls until it rises."""
    losses = {first: loss(first)}
    yield first, losses[first]
    up = first * STEP
    losses[up] = loss(up)
    yield up, losses[up]
    rises = losses[up] >= losses[first]
    rate, ratio = (first, 1 / STEP) if rises else (up, STEP)
    for _ in range(MAX_TRIALS - 2):
        following = rate * ratio
        losses[following] = loss(following)
        yield following, losses[following]
        if losses[following] >= losses[rate]:
            return
        rate = following
