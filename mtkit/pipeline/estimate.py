"""Estimates of the parameters, memory and time of a training, measured on dummy batches without the corpus."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import NamedTuple

import torch

from mtkit.corpus.config import has_training_text, training_text
from mtkit.corpus.order.batch import Source, dummy_batch
from mtkit.display import about_duration, count_of, format_bytes
from mtkit.errors import ComputeError, MissingInputError
from mtkit.hardware import default_device, free_memory, has_bf16
from mtkit.models.interface import TranslationModel
from mtkit.models.skip_init import META_DEVICE, SkipInit, build_on_meta
from mtkit.pipeline.builders import build_architecture, build_objective, load_teacher, resolve_auto_precision
from mtkit.recipe.defaults.facts import corpus_statistics
from mtkit.recipe.defaults.schedule import updates_of_epochs
from mtkit.recipe.sections import Recipe
from mtkit.text.subword.import_tokenizer import model_paths, planned_vocab_sizes
from mtkit.text.train_tokenizer import require_vocab_for_text
from mtkit.text.vocab import Vocab
from mtkit.training.config import PrecisionName
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.learner import Learner, build_learner
from mtkit.training.memory import SavedTensorBytes, find_max_batch_tokens, forward_backward
from mtkit.training.monitoring.meter import busy_lines, read_cpu_times
from mtkit.training.objectives.config import RewardName

WEIGHT_AND_GRADIENT_BYTES = 8  # of each parameter
ENOUGH_SECONDS = 3.0  # of timings: the choices for a short budget must not take longer than the budget


@dataclass(frozen=True)
class TrialTraining:
    """A training on dummy batches; the vocabulary has the size in the recipe.

    Attributes:
        recipe: with `auto` replaced by the values for this machine.
        learner: with uninitialised weights.
        assumed: sentences about files of other runs that are not there, with what stands in for them.
    """

    recipe: Recipe
    learner: Learner
    assumed: tuple[str, ...]

    @classmethod
    def of(cls, recipe: Recipe) -> TrialTraining:
        """Build the training of a recipe.

        Raises:
            RecipeError: sections of the recipe are incompatible.
            ComputeError: weights and gradients do not fit into the memory of this machine.
            DataError: `tokenizer.vocab_size` leaves no token for text.
        """
        recipe, assumed = replace(recipe, training=resolve_auto_precision(recipe.training)), []
        if missing := [path for path in model_paths(recipe.tokenizer) if not path.exists()]:
            recipe = replace(recipe, tokenizer=replace(recipe.tokenizer, model=None))
            size = recipe.tokenizer.vocab_size
            assumed.append(f"tokenizer.model: {missing[0]}: no such file; assumed to have {size:,} tokens")
        learner, sentence = _build_learner(recipe)
        assumed += [sentence] if sentence else []
        if recipe.training.batch_tokens == "auto":
            make_batch = partial(dummy_batch, src=_vocab(recipe), tgt=_vocab(recipe))
            batch_tokens = find_max_batch_tokens(learner, SENTENCE_TOKENS, make_batch)
            recipe = replace(recipe, training=replace(recipe.training, batch_tokens=batch_tokens))
            learner, _ = _build_learner(recipe)
        return cls(recipe, learner, tuple(assumed))

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(p.numel() for p in self.learner.model.parameters())

    def cost(self) -> MicroBatchCost:
        """Measure the cost of a micro-batch."""
        return measure_cost(self.learner, _vocab(self.recipe), self.recipe.training.resolved_batch_tokens)

    def seconds_per_update(self, limit: float = ENOUGH_SECONDS) -> float:
        """Measure the time of an update, with micro-batches of the recipe's size.

        Small models need most of the time of a small micro-batch for overhead, so that it cannot be scaled up.

        Args:
            limit: seconds after which no further timing begins.
        """
        training, vocab = self.recipe.training, _vocab(self.recipe)
        return training.micro_batches * median_seconds(self.learner, vocab, training.resolved_batch_tokens, limit)


def seconds_per_update(recipe: Recipe, limit: float = ENOUGH_SECONDS) -> float:
    """Measure the time of an update of a recipe on free cores of this machine; see `TrialTraining`."""
    return TrialTraining.of(recipe).seconds_per_update(min(limit, ENOUGH_SECONDS))


def training_rates(recipe: Recipe) -> dict[PrecisionName, float]:
    """Measure the source and target tokens per second of a training in each precision that this machine is fast in.

    Forward and backward pass of sentences with SENTENCE_TOKENS tokens. Errors as `TrialTraining.of`.
    """
    precisions: list[PrecisionName] = ["float32", "bf16"] if has_bf16(default_device()) else ["float32"]
    rates: dict[PrecisionName, float] = {}
    for precision in precisions:
        trial = TrialTraining.of(replace(recipe, training=replace(recipe.training, precision=precision)))
        training = trial.recipe.training
        sentences = max(1, training.resolved_batch_tokens // SENTENCE_TOKENS) * training.micro_batches
        rates[precision] = 2 * SENTENCE_TOKENS * sentences / trial.seconds_per_update()
    return rates


def _build_learner(recipe: Recipe) -> tuple[Learner, str]:
    """The learner, and a sentence about a teacher that is not there."""
    if recipe.tokenizer.model is None:
        require_vocab_for_text(recipe.tokenizer)
    vocab_sizes, device = planned_vocab_sizes(recipe.tokenizer), default_device()
    on_meta = build_on_meta(partial(build_architecture, recipe, vocab_sizes, device=META_DEVICE))
    parameters, available = sum(p.numel() for p in on_meta.parameters()), free_memory(device)
    if (needed := WEIGHT_AND_GRADIENT_BYTES * parameters) > available:
        raise ComputeError(
            f"model: weights and gradients of {parameters:,} parameters need {format_bytes(needed)}, and this machine "
            f"has {format_bytes(available)} of free memory; reduce the model or tokenizer.vocab_size"
        )
    with SkipInit(device):
        model = build_architecture(recipe, vocab_sizes)
    size, assumed = vocab_sizes[1], ""
    try:
        teacher = load_teacher(recipe, model)
    except MissingInputError as error:
        assumed = f"{str(error).partition(';')[0]}; assumed to be a model like its student"
        with SkipInit(device):
            teacher = build_architecture(recipe, vocab_sizes)
    vocab_ids = TargetVocabIds(size=size, first_text_id=4, end_text_id=size, pad=0, unk=1, bos=2, eos=3)
    objective = build_objective(recipe.training, vocab_ids, _DummySampler(size), teacher=teacher)
    return build_learner(model, objective, config=recipe.training), assumed


def _vocab(recipe: Recipe) -> Vocab:
    return Vocab(size=min(planned_vocab_sizes(recipe.tokenizer)), pad=0, unk=1, bos=2, eos=3)


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


SENTENCE_TOKENS = 30  # tokens of each side with eos: an average sentence of news, twice one of Multi30k
MAX_DUMMY_TOKENS = 8192  # maximum size of the dummy micro-batch; time and activations are scaled up linearly
FEW_SENTENCES = 4  # enough to time a large model (measured: see tools/benchmarks/NOTES.md)
MIN_SECONDS = 0.5  # a model that is faster than this on FEW_SENTENCES is timed on more sentences
REPEATS = 3  # timings of a fast model, of which the minimum counts


@dataclass(frozen=True)
class MicroBatchCost:
    """Cost of one micro-batch of `training.batch_tokens`.

    Attributes:
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
    max_sentences = max(1, min(batch_tokens, MAX_DUMMY_TOKENS) // SENTENCE_TOKENS)
    few = dummy_batch(min(FEW_SENTENCES, max_sentences), SENTENCE_TOKENS, vocab, vocab)
    saved = SavedTensorBytes(learner.model)
    with torch.autograd.graph.saved_tensors_hooks(saved, lambda tensor: tensor):
        forward_backward(learner, few)
    timing = _time(lambda: forward_backward(learner, few))
    sentences = len(few.sample_ids)
    if min(timing) < MIN_SECONDS:  # waiting for a core does not count
        sentences = max(sentences, min(max_sentences, int(sentences * MIN_SECONDS / max(min(timing), 1e-6))))
        many = dummy_batch(sentences, SENTENCE_TOKENS, vocab, vocab)
        timings = [_time(lambda: forward_backward(learner, many)) for _ in range(REPEATS)]
        timing = _Timing(*map(min, zip(*timings, strict=True)))
    scale = batch_tokens / SENTENCE_TOKENS
    return MicroBatchCost(
        seconds=timing.wall / sentences * scale,
        free_seconds=timing.cpu / sentences * scale,
        activations=saved.total / len(few.sample_ids) * scale,
    )


def median_seconds(learner: Learner, vocab: Vocab, batch_tokens: int, limit: float) -> float:
    """Measure the time of a micro-batch of this size on free cores, the median of up to REPEATS within a limit."""
    batch = dummy_batch(max(1, batch_tokens // SENTENCE_TOKENS), SENTENCE_TOKENS, vocab, vocab)
    forward_backward(learner, dummy_batch(1, SENTENCE_TOKENS, vocab, vocab))  # one-time costs
    device = next(learner.model.parameters()).device
    return seconds_on_free_cores(lambda: forward_backward(learner, batch), device, repeats=REPEATS, limit=limit)


def seconds_on_free_cores(
    compute: Callable[[], object], device: torch.device, *, repeats: int = 1, limit: float = math.inf
) -> float:
    """Measure the time of a computation: by the clock, or by the CPU time of a thread if others use the cores.

    Args:
        device: of the computation; a GPU is measured by the clock.
        repeats: timings, of which the median counts.
        limit: seconds after which no further one begins.
    """
    before, timings = read_cpu_times(), list[_Timing]()
    while len(timings) < repeats and sum(each.wall for each in timings) < limit:
        timings.append(_time(compute))
    is_busy = device.type == "cpu" and bool(busy_lines(before, read_cpu_times(), None))
    return median(each.cpu if is_busy else each.wall for each in timings)


def _time(compute: Callable[[], object]) -> _Timing:
    start, cpu = time.perf_counter(), time.process_time()
    compute()
    return _Timing(time.perf_counter() - start, (time.process_time() - cpu) / torch.get_num_threads())


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
    this machine. Time and activations are measured on a micro-batch of at most MAX_DUMMY_TOKENS tokens. If other
    processes use the machine, the time on free cores is added, from the CPU time of the measurement. Tokenizers and
    teachers of other runs may be absent, as the corpus.

    Raises:
        RecipeError: sections of the recipe are incompatible.
        ComputeError: weights and gradients do not fit into the memory of this machine.
        DataError: `tokenizer.vocab_size` leaves no token for text.
    """
    before = read_cpu_times()
    trial = TrialTraining.of(recipe)
    recipe, cost, parameters = trial.recipe, trial.cost(), trial.parameters
    training, tokenizer = recipe.training, recipe.tokenizer
    updates, is_on_cpu = planned_updates(recipe), trial.learner.device.type == "cpu"
    free = _seconds(recipe, updates, cost.free_seconds) if is_on_cpu else None
    busy = busy_lines(before, read_cpu_times(), free)
    memory = {
        "weights": 4 * parameters,
        "gradients": 4 * parameters,
        "optimiser": training.optimiser.bytes_per_weight * parameters,
        "EMA": 4 * parameters if training.ema else 0,
        "activations": cost.activations,
    }
    sharing = "shared" if tokenizer.shared else "for each side"
    listed = ", ".join(f"{name} {format_bytes(size)}" for name, size in memory.items() if size)
    device = f"{count_of(torch.get_num_threads(), 'thread')} of this CPU" if is_on_cpu else "this GPU"
    duration = about_duration(_seconds(recipe, updates, cost.seconds))
    length = f"{updates:,} updates"
    if training.max_epochs is not None and updates != training.scheduled_updates:
        length = f"about {length} ({training.max_epochs:g} epochs)"
    also = "" if recipe.corpus.valid is None else ", plus validation"
    lines = [
        f"{recipe.name}: {recipe.model.kind}, {parameters:,} parameters, {planned_vocab_sizes(tokenizer)[1]:,} tokens "
        f"({sharing})",
        f"memory of training: about {format_bytes(sum(memory.values()))}: {listed}",
        f"time of training: {duration} on {device} in {training.precision}: "
        f"{length} of {training.micro_batches} × {training.resolved_batch_tokens:,} tokens{also}",
        f"(measured on a dummy micro-batch with sentences of {SENTENCE_TOKENS} tokens, without the corpus)",
    ]
    return "\n".join([*lines, *trial.assumed, *busy])


def estimate_training(recipe: Recipe, measured: dict[str, float]) -> TrainingEstimate:
    """Return the estimate of `dry_run_report` as numbers. Errors as there.

    Args:
        measured: seconds of a micro-batch by what they depend on; a new one is measured and added, so that equal
            models have equal times.
    """
    before = read_cpu_times()
    trial = TrialTraining.of(recipe)
    recipe, training, updates = trial.recipe, trial.recipe.training, planned_updates(trial.recipe)
    # everything that the time of a micro-batch depends on; dropout and label smoothing are not among it
    keys = recipe.model, recipe.tokenizer, training.objective, training.decoder_input, training.precision
    text = repr((*keys, training.resolved_batch_tokens, training.activation_checkpointing))
    shape = re.sub(r"(dropout|label_smoothing)=[\d.e-]+", "", text)
    if shape not in measured:
        cost = trial.cost()
        is_busy = trial.learner.device.type == "cpu" and bool(busy_lines(before, read_cpu_times(), None))
        measured[shape] = cost.free_seconds if is_busy else cost.seconds
    return TrainingEstimate(trial.parameters, updates, _seconds(recipe, updates, measured[shape]))


def _seconds(recipe: Recipe, updates: int, per_micro_batch: float) -> float:
    seconds, budget = updates * recipe.training.micro_batches * per_micro_batch, recipe.training.budget_hours
    return seconds if budget is None else min(seconds, 3600 * budget)


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
