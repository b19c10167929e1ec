"""Estimate of the parameters, memory and time of a training, measured on a dummy micro-batch without the corpus."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from mtkit.assembly.measure_training import SENTENCE_TOKENS, MicroBatchCost, TrialTraining
from mtkit.corpus.config import has_training_text, training_text
from mtkit.display import about_duration, count_of, format_bytes
from mtkit.recipe.defaults.facts import corpus_statistics
from mtkit.recipe.defaults.schedule import updates_of_epochs
from mtkit.recipe.sections import Recipe
from mtkit.text.subword.import_tokenizer import planned_vocab_sizes
from mtkit.training.monitoring.busy_machine import busy_lines, read_cpu_times


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
    use the machine, the time on free cores is added, from the CPU time of the measurement. Tokenizers and teachers of
    other runs may be absent, as the corpus.

    Raises:
        RecipeError: sections of the recipe are incompatible.
        ComputeError: weights and gradients do not fit into the memory of this machine.
        DataError: `tokenizer.vocab_size` leaves no token for text.
    """
    before, training = read_cpu_times(), TrialTraining.of(recipe)
    recipe, cost = training.recipe, training.cost()
    updates, is_on_cpu = planned_updates(recipe), training.learner.device.type == "cpu"
    free = _seconds(recipe, updates, cost.free_seconds) if is_on_cpu else None
    busy = busy_lines(before, read_cpu_times(), free)
    return "\n".join([*_report_lines(training, updates, cost), *training.assumed, *busy])


def estimate_training(recipe: Recipe, measured: dict[str, float]) -> TrainingEstimate:
    """Return the estimate of `dry_run` as numbers. Errors as there.

    Args:
        measured: seconds of a micro-batch by what they depend on; a new one is measured and added, so that equal
            models have equal times.
    """
    before, training = read_cpu_times(), TrialTraining.of(recipe)
    updates, shape = planned_updates(training.recipe), _shape(training.recipe)
    if shape not in measured:
        cost = training.cost()
        is_busy = training.learner.device.type == "cpu" and bool(busy_lines(before, read_cpu_times(), None))
        measured[shape] = cost.free_seconds if is_busy else cost.seconds
    return TrainingEstimate(training.parameters, updates, _seconds(training.recipe, updates, measured[shape]))


def _shape(recipe: Recipe) -> str:
    """Everything that the time of a micro-batch depends on; dropout and label smoothing are not among it."""
    training = recipe.training
    keys = recipe.model, recipe.tokenizer, training.objective, training.decoder_input, training.precision
    text = repr((*keys, training.resolved_batch_tokens, training.activation_checkpointing))
    return re.sub(r"(dropout|label_smoothing)=[\d.e-]+", "", text)


def _seconds(recipe: Recipe, updates: int, per_micro_batch: float) -> float:
    seconds, budget = updates * recipe.training.micro_batches * per_micro_batch, recipe.training.budget_hours
    return seconds if budget is None else min(seconds, 3600 * budget)


def _report_lines(trial: TrialTraining, updates: int, cost: MicroBatchCost) -> list[str]:
    recipe, parameters = trial.recipe, trial.parameters
    training, tokenizer = recipe.training, recipe.tokenizer
    memory = {
        "weights": 4 * parameters,
        "gradients": 4 * parameters,
        "optimiser": training.optimiser.bytes_per_weight * parameters,
        "EMA": 4 * parameters if training.ema else 0,
        "activations": cost.activations,
    }
    sharing = "shared" if tokenizer.shared else "for each side"
    listed = ", ".join(f"{name} {format_bytes(size)}" for name, size in memory.items() if size)
    threads = torch.get_num_threads()
    device = f"{count_of(threads, 'thread')} of this CPU" if trial.learner.device.type == "cpu" else "this GPU"
    duration = about_duration(_seconds(recipe, updates, cost.seconds))
    also = "" if recipe.corpus.valid is None else ", plus validation"
    return [
        f"{recipe.name}: {recipe.model.kind}, {parameters:,} parameters, {planned_vocab_sizes(tokenizer)[1]:,} tokens "
        f"({sharing})",
        f"memory of training: about {format_bytes(sum(memory.values()))}: {listed}",
        f"time of training: {duration} on {device} in {training.precision}: "
        f"{_describe_length(recipe, updates)} of {training.micro_batches} × {training.resolved_batch_tokens:,} tokens"
        f"{also}",
        f"(measured on a dummy micro-batch with sentences of {SENTENCE_TOKENS} tokens, without the corpus)",
    ]


def planned_updates(recipe: Recipe) -> int:
    """Return the updates of a training to its end: those of its schedule, or of `max_epochs` if they are fewer.

    The latter are estimated from the characters of the training text, which is read; without text, the schedule is all
    that is known.

    Raises:
        ValueError: `batch_tokens` is auto, and epochs are counted.
    """
    training = recipe.training
    if training.max_epochs is None or not has_training_text(recipe.corpus):
        return training.scheduled_updates
    statistics = corpus_statistics(*zip(*map(training_text, recipe.corpus.train), strict=True))
    batch = training.resolved_batch_tokens * training.micro_batches
    return min(training.scheduled_updates, updates_of_epochs(training.max_epochs, statistics.tokens, batch))


def _describe_length(recipe: Recipe, updates: int) -> str:
    """Number of updates, and the epochs if these end the training."""
    epochs = recipe.training.max_epochs
    if epochs is None or updates == recipe.training.scheduled_updates:
        return f"{updates:,} updates"
    return f"about {updates:,} updates ({epochs:g} epochs)"
