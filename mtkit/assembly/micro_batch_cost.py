"""Time and memory of a micro-batch, measured on dummy sentences, also on a machine that other processes use."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import torch

from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.dummy_batch import dummy_batch
from mtkit.text.vocab import Vocab
from mtkit.training.learner import Learner
from mtkit.training.monitoring.saved_tensors import SavedTensorBytes
from mtkit.training.robustness.batch_size_search import forward_backward

SENTENCE_TOKENS = 30  # tokens of each side with eos: an average sentence of news, twice one of Multi30k
PROBE_TOKENS = 8192  # maximum size of the dummy micro-batch; time and activations are scaled up linearly
FEW_SENTENCES = 4  # enough to time a large model (measured: see tests/benchmarks/NOTES.md)
MIN_SECONDS = 0.5  # a model that is faster than this on FEW_SENTENCES is timed on more sentences
REPEATS = 3  # timings of a fast model, of which the minimum counts
ENOUGH_SECONDS = 3.0  # of timings: the choices for a short budget must not take longer than the budget


@dataclass(frozen=True)
class MicroBatchCost:
    """Cost of one micro-batch of `training.batch_tokens`.

    Attributes:
        seconds: forward and backward pass.
        free_seconds: the same without other processes: CPU time divided by the threads. Means nothing on a GPU.
        activations: bytes saved for the backward pass.
    """

    seconds: float
    free_seconds: float
    activations: float


class _Timing(NamedTuple):
    """Seconds by the clock, and CPU seconds of this process divided by its threads."""

    wall: float
    cpu: float


def measure_cost(learner: Learner, vocab: Vocab, batch_tokens: int) -> MicroBatchCost:
    """Measure the activations and the time of forward and backward passes over dummy batches, scaled to `batch_tokens`.

    A model that is fast on FEW_SENTENCES is timed again on a larger batch, which uses a large machine better, and
    several times, since other programs may slow down a pass.
    """
    max_sentences = max(1, min(batch_tokens, PROBE_TOKENS) // SENTENCE_TOKENS)
    few = _dummy_batch(min(FEW_SENTENCES, max_sentences), vocab)
    saved = SavedTensorBytes(learner.model)
    with torch.autograd.graph.saved_tensors_hooks(saved, lambda tensor: tensor):
        forward_backward(learner, few)
    timing = _time(lambda: forward_backward(learner, few))
    sentences = len(few.sample_ids)
    if min(timing) < MIN_SECONDS:  # waiting for a core does not count
        sentences = max(sentences, min(max_sentences, int(sentences * MIN_SECONDS / max(min(timing), 1e-6))))
        many = _dummy_batch(sentences, vocab)
        timings = [_time(lambda: forward_backward(learner, many)) for _ in range(REPEATS)]
        timing = _Timing(*map(min, zip(*timings, strict=True)))
    scale = batch_tokens / SENTENCE_TOKENS
    return MicroBatchCost(
        seconds=timing.wall / sentences * scale,
        free_seconds=timing.cpu / sentences * scale,
        activations=saved.total / len(few.sample_ids) * scale,
    )


def median_seconds(learner: Learner, vocab: Vocab, batch_tokens: int) -> float:
    """Measure the time of a micro-batch of this size, the median of up to REPEATS within ENOUGH_SECONDS."""
    batch = _dummy_batch(max(1, batch_tokens // SENTENCE_TOKENS), vocab)
    forward_backward(learner, _dummy_batch(1, vocab))  # one-time costs
    seconds: list[float] = []
    while len(seconds) < REPEATS and sum(seconds) < ENOUGH_SECONDS:
        seconds.append(_time(lambda: forward_backward(learner, batch)).wall)
    return median(seconds)


def _dummy_batch(sentences: int, vocab: Vocab) -> Batch:
    return dummy_batch(sentences, SENTENCE_TOKENS, vocab, vocab)


def _time(compute: Callable[[], object]) -> _Timing:
    start, cpu = time.perf_counter(), time.process_time()
    compute()
    return _Timing(time.perf_counter() - start, (time.process_time() - cpu) / torch.get_num_threads())
