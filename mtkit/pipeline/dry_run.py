"""Estimate of the parameters, memory and time of a training, measured on a dummy micro-batch without the corpus."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from mtkit.assembly.micro_batch_cost import SENTENCE_TOKENS, MicroBatchCost, measure_cost, median_seconds
from mtkit.assembly.training import (
    build_model_architecture,
    build_modules,
    learner_from_recipe,
    load_teacher,
    resolve_auto_precision,
)
from mtkit.corpus.config import has_training_text, training_text
from mtkit.corpus.order.batch import Source
from mtkit.corpus.order.dummy_batch import dummy_batch
from mtkit.errors import ComputeError
from mtkit.hardware import default_device, free_memory, has_bf16
from mtkit.io.counts import count_of
from mtkit.models.interface import TranslationModel
from mtkit.models.skip_init import SkipInit, build_on_meta
from mtkit.recipe.defaults.schedule import updates_of_epochs
from mtkit.recipe.defaults.statistics import corpus_statistics
from mtkit.recipe.recipe import Recipe
from mtkit.text.subword.import_tokenizer import planned_vocab_sizes
from mtkit.text.train_tokenizer import require_vocab_for_text
from mtkit.text.vocab import Vocab
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.learner import Learner
from mtkit.training.monitoring.busy_machine import CpuTimes, cores_of_others, read_cpu_times
from mtkit.training.objectives.interface import RewardName
from mtkit.training.precision import PrecisionName
from mtkit.training.robustness.batch_size_search import find_max_batch_tokens

WEIGHT_AND_GRADIENT_BYTES = 8  # of each parameter
MIN_BUSY_CORES = 0.5  # of other processes, from which the time is said to be that of a busy machine


@dataclass(frozen=True)
class TrainingEstimate:
    """Estimate of a training on this machine.

    Attributes:
        parameters: number of weights.
        updates: to the end of the training, see `planned_updates`.
        seconds: of all updates, without validation; on a CPU that other processes use, on free cores.
    """

    parameters: int
    updates: int
    seconds: float


def dry_run_report(recipe: Recipe) -> str:
    """Return the text that `--dry-run` prints.

    Assumptions: the vocabulary has the size in the recipe, sentences have SENTENCE_TOKENS tokens, and training runs on
    this machine. Time and activations are measured on a micro-batch of at most PROBE_TOKENS tokens. If other processes
    use the machine, the time on free cores is added, from the CPU time of the measurement.

    Raises:
        RecipeError: sections of the recipe are incompatible.
        ComputeError: weights and gradients do not fit into the memory of this machine.
        DataError: `tokenizer.vocab_size` leaves no token for text.
    """
    recipe, before = _resolve_auto_keys(recipe), read_cpu_times()
    learner, cost = _probe(recipe)
    is_on_cpu = learner.device.type == "cpu"
    free = _seconds(recipe, planned_updates(recipe), cost.free_seconds) if is_on_cpu else None
    busy = busy_lines(before, read_cpu_times(), free)
    return "\n".join([*_report_lines(recipe, learner, cost), *busy])


def estimate_training(recipe: Recipe, measured: dict[str, float]) -> TrainingEstimate:
    """Return the estimate of `dry_run` as numbers. Errors as there.

    Args:
        recipe: of the training.
        measured: seconds of a micro-batch by what they depend on; a new one is measured and added, so that equal
            models have equal times.
    """
    recipe, before = _resolve_auto_keys(recipe), read_cpu_times()
    learner, updates, shape = _build_learner(recipe), planned_updates(recipe), _shape(recipe)
    if shape not in measured:
        cost = measure_cost(learner, _vocab(recipe), recipe.training.resolved_batch_tokens)
        is_busy = learner.device.type == "cpu" and bool(busy_lines(before, read_cpu_times(), None))
        measured[shape] = cost.free_seconds if is_busy else cost.seconds
    return TrainingEstimate(_num_parameters(learner), updates, _seconds(recipe, updates, measured[shape]))


def _shape(recipe: Recipe) -> str:
    """Everything that the time of a micro-batch depends on; dropout and label smoothing are not among it."""
    training = recipe.training
    keys = recipe.model, recipe.tokenizer, training.objective, training.decoder_input, training.precision
    text = repr((*keys, training.resolved_batch_tokens, training.activation_checkpointing))
    return re.sub(r"(dropout|label_smoothing)=[\d.e-]+", "", text)


def seconds_per_update(recipe: Recipe) -> float:
    """Measure the time of an update on this machine, with micro-batches of the recipe's size. Errors as `dry_run`.

    Small models need most of the time of a small micro-batch for overhead, so that it cannot be scaled up.
    """
    recipe = _resolve_auto_keys(recipe)
    seconds = median_seconds(_build_learner(recipe), _vocab(recipe), recipe.training.resolved_batch_tokens)
    return seconds * recipe.training.micro_batches


def training_rates(recipe: Recipe) -> dict[PrecisionName, float]:
    """Measure the source and target tokens per second of a training in each precision that this machine is fast in.

    Forward and backward pass of sentences with SENTENCE_TOKENS tokens. Errors as `dry_run`.
    """
    precisions: list[PrecisionName] = ["float32", "bf16"] if has_bf16(default_device()) else ["float32"]
    rates: dict[PrecisionName, float] = {}
    for precision in precisions:
        training = replace(_resolve_auto_keys(recipe).training, precision=precision)
        sentences = max(1, training.resolved_batch_tokens // SENTENCE_TOKENS) * training.micro_batches
        seconds = seconds_per_update(replace(recipe, training=training))
        rates[precision] = 2 * SENTENCE_TOKENS * sentences / seconds
    return rates


def _resolve_auto_keys(recipe: Recipe) -> Recipe:
    """Replace `auto` in precision and batch size by the values for this machine."""
    recipe = resolve_auto_precision(recipe)
    if recipe.training.batch_tokens != "auto":
        return recipe
    make_batch = partial(dummy_batch, src=_vocab(recipe), tgt=_vocab(recipe))
    batch_tokens = find_max_batch_tokens(_build_learner(recipe), SENTENCE_TOKENS, make_batch)
    return replace(recipe, training=replace(recipe.training, batch_tokens=batch_tokens))


def _probe(recipe: Recipe) -> tuple[Learner, MicroBatchCost]:
    learner = _build_learner(recipe)
    return learner, measure_cost(learner, _vocab(recipe), recipe.training.resolved_batch_tokens)


def _build_learner(recipe: Recipe) -> Learner:
    if recipe.tokenizer.model is None:
        require_vocab_for_text(recipe.tokenizer)
    (src_size, size), device = planned_vocab_sizes(recipe.tokenizer), default_device()
    _require_memory(build_on_meta(lambda: build_modules(recipe, src_size, size)), free_memory(device))
    with SkipInit(device):
        model = build_model_architecture(recipe, src_size, size)
    vocab_ids = TargetVocabIds(size=size, first_text_id=4, end_text_id=size, pad=0, unk=1, bos=2, eos=3)
    return learner_from_recipe(recipe, model, vocab_ids, _DummySampler(size), teacher=load_teacher(recipe, model))


def _require_memory(model: TranslationModel, available: int) -> None:
    parameters = sum(p.numel() for p in model.parameters())
    if (needed := WEIGHT_AND_GRADIENT_BYTES * parameters) > available:
        raise ComputeError(
            f"model: weights and gradients of {parameters:,} parameters need {_format_bytes(needed)}, and this machine "
            f"has {_format_bytes(available)} of free memory; reduce the model or tokenizer.vocab_size"
        )


def _vocab(recipe: Recipe) -> Vocab:
    return Vocab(size=min(planned_vocab_sizes(recipe.tokenizer)), pad=0, unk=1, bos=2, eos=3)


def _num_parameters(learner: Learner) -> int:
    return sum(p.numel() for p in learner.model.parameters())


def _seconds(recipe: Recipe, updates: int, per_micro_batch: float) -> float:
    seconds, budget = updates * recipe.training.micro_batches * per_micro_batch, recipe.training.budget_hours
    return seconds if budget is None else min(seconds, 3600 * budget)


def planned_updates(recipe: Recipe) -> int:
    """Return the updates of a training to its end: `max_updates`, or those of `max_epochs` if they are fewer.

    The latter are estimated from the characters of the training text, which is read; without text, `max_updates` is all
    that is known.

    Raises:
        ValueError: `batch_tokens` is auto, and epochs are counted.
    """
    training = recipe.training
    if training.max_epochs is None or not has_training_text(recipe.corpus):
        return training.max_updates
    statistics = corpus_statistics(*zip(*map(training_text, recipe.corpus.train), strict=True))
    batch = training.resolved_batch_tokens * training.micro_batches
    return min(training.max_updates, updates_of_epochs(training.max_epochs, statistics.tokens, batch))


@dataclass(frozen=True)
class _DummySampler:
    """Random translations of SENTENCE_TOKENS tokens each, for objectives that sample from the model."""

    size: int

    def sample(
        self, model: TranslationModel, source: Source, *, count: int, temperature: float
    ) -> list[list[list[int]]]:
        """Return random token ids; see TranslationSampler."""
        sampled = torch.randint(4, self.size, (source.ids.size(0), count, SENTENCE_TOKENS - 1)).tolist()
        return [[[int(token) for token in hyp] for hyp in hyps] for hyps in sampled]

    def reward(self, name: RewardName, hyps: Sequence[Sequence[int]], ref: Sequence[int]) -> list[float]:
        """Return a constant; see TranslationSampler."""
        return [0.5] * len(hyps)


def _report_lines(recipe: Recipe, learner: Learner, cost: MicroBatchCost) -> list[str]:
    training, tokenizer = recipe.training, recipe.tokenizer
    parameters = _num_parameters(learner)
    memory = {
        "weights": 4 * parameters,
        "gradients": 4 * parameters,
        "optimiser": training.optimiser.bytes_per_weight * parameters,
        "EMA": 4 * parameters if training.ema else 0,
        "activations": cost.activations,
    }
    sharing = "shared" if tokenizer.shared else "for each side"
    listed = ", ".join(f"{name} {_format_bytes(size)}" for name, size in memory.items() if size)
    threads = torch.get_num_threads()
    device = f"{count_of(threads, 'thread')} of this CPU" if learner.device.type == "cpu" else "this GPU"
    updates = planned_updates(recipe)
    duration = _about(_seconds(recipe, updates, cost.seconds))
    also = "" if recipe.corpus.valid is None else ", plus validation"
    return [
        f"{recipe.name}: {recipe.model.kind}, {parameters:,} parameters, {planned_vocab_sizes(tokenizer)[1]:,} tokens "
        f"({sharing})",
        f"memory of training: about {_format_bytes(sum(memory.values()))}: {listed}",
        f"time of training: {duration} on {device} in {training.precision}: "
        f"{_describe_length(recipe, updates)} of {training.micro_batches} × {training.resolved_batch_tokens:,} tokens"
        f"{also}",
        f"(measured on a dummy micro-batch with sentences of {SENTENCE_TOKENS} tokens, without the corpus)",
    ]


def busy_lines(before: CpuTimes | None, now: CpuTimes | None, free_seconds: float | None) -> list[str]:
    """A line that says that the measured time is that of a busy machine, if it is one.

    Args:
        before: CPU times before the measurement.
        now: after it.
        free_seconds: of the training on free cores; None: unknown.
    """
    if before is None or now is None or (others := cores_of_others(before, now)) < MIN_BUSY_CORES:
        return []
    takes = "it takes less time" if free_seconds is None else _about(free_seconds)
    return [f"(other processes used {others:.1f} of {os.cpu_count()} cores meanwhile; on free cores {takes})"]


def _describe_length(recipe: Recipe, updates: int) -> str:
    """Number of updates, and the epochs if these end the training."""
    epochs = recipe.training.max_epochs
    if epochs is None or updates == recipe.training.max_updates:
        return f"{updates:,} updates"
    return f"about {updates:,} updates ({epochs:g} epochs)"


def _about(seconds: float) -> str:
    return format_duration(seconds) if seconds < 1 else f"about {format_duration(seconds)}"


def _format_bytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def format_duration(seconds: float) -> str:
    """Format a duration in the largest unit of which it has at least two, or in seconds."""
    if seconds < 1:
        return "less than a second"
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return count_of(round(seconds), "second")
