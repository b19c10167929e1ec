"""What a training would cost: parameters, memory and time, from one made-up micro-batch and without the corpus."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from mtkit.build.skip_init import Undrawn
from mtkit.build.training import build_training, build_untrained, default_device, with_precision
from mtkit.corpus.order.batch import Batch, Source
from mtkit.corpus.order.dummy_batch import made_up_batch
from mtkit.models.interface import TranslationModel
from mtkit.recipe.recipe import Recipe
from mtkit.text.vocab import Vocab
from mtkit.training.decoder_inputs.interface import TargetPieces
from mtkit.training.learner import Learner
from mtkit.training.objectives.interface import RewardName
from mtkit.training.robustness.batch_size_search import largest_batch, learn_once

SENTENCE = 30  # tokens of either side, the end included: about what one of news has, twice one of Multi30k
PROBE = 512  # places of the made-up micro-batch at most; time and activations grow in proportion
FEW = 4  # sentences that show already what a large model costs: 10% more each than 17 at 214 M parameters
LONG = 0.5  # seconds that these must take to be enough
TIMES = 3  # that a quick model is timed; the least counts
# bytes that an optimiser remembers of each weight, at most; SGD's momentum adds 4
PER_WEIGHT = {"adam": 8, "adamw": 8, "adafactor": 0, "lion": 4, "muon": 8, "sgd": 0}


@dataclass(frozen=True)
class Cost:
    """Of one micro-batch of the recipe's size."""

    seconds: float
    activations: float  # bytes


@dataclass(frozen=True)
class Forecast:
    """The size of a model, and about how long its training takes on this machine, validation left out."""

    parameters: int
    seconds: float


def dry_run(recipe: Recipe) -> str:
    """The text that `--dry-run` prints.

    The vocabulary is taken to have the size that the recipe asks for, sentences to have SENTENCE tokens, and this
    machine to be the one that trains; time and activations are measured on a micro-batch of PROBE tokens or less.

    Raises:
        RecipeError: parts of the recipe do not fit each other.
    """
    recipe = _settled(recipe)
    return "\n".join(_lines(recipe, *_probe(recipe)))


def forecast(recipe: Recipe) -> Forecast:
    """The figures of `dry_run` for a program. Errors as there."""
    recipe = _settled(recipe)
    learner, cost = _probe(recipe)
    return Forecast(_parameters(learner), _seconds(recipe, cost))


def _settled(recipe: Recipe) -> Recipe:
    """With what `auto` comes to here."""
    recipe = with_precision(recipe)
    if recipe.training.batch_tokens != "auto":
        return recipe
    make = partial(made_up_batch, src=_vocab(recipe), tgt=_vocab(recipe))
    places = largest_batch(_learner(recipe), SENTENCE, make)
    return replace(recipe, training=replace(recipe.training, batch_tokens=places))


def _probe(recipe: Recipe) -> tuple[Learner, Cost]:
    learner = _learner(recipe)
    return learner, measure(learner, _vocab(recipe), recipe.training.places)


def _learner(recipe: Recipe) -> Learner:
    size = recipe.tokenizer.vocab_size
    with Undrawn(default_device()):
        model = build_untrained(recipe, size, size)
    pieces = TargetPieces(size=size, first=4, pad=0, unk=1, bos=2, eos=3)
    return build_training(recipe, model, pieces, _MadeUp(size))


def _vocab(recipe: Recipe) -> Vocab:
    return Vocab(size=recipe.tokenizer.vocab_size, pad=0, unk=1, bos=2, eos=3)


def _parameters(learner: Learner) -> int:
    return sum(p.numel() for p in learner.model.parameters())


def _seconds(recipe: Recipe, cost: Cost) -> float:
    return cost.seconds * recipe.training.micro_batches * recipe.training.max_updates


@dataclass(frozen=True)
class _MadeUp:
    """Translations without a tokenizer, each of SENTENCE tokens."""

    size: int

    def sample(
        self, model: TranslationModel, source: Source, *, count: int, temperature: float
    ) -> list[list[list[int]]]:
        """See Generation."""
        drawn = torch.randint(4, self.size, (source.ids.size(0), count, SENTENCE - 1)).tolist()
        return [[[int(piece) for piece in hyp] for hyp in hyps] for hyps in drawn]

    def reward(self, name: RewardName, hyps: Sequence[Sequence[int]], ref: Sequence[int]) -> list[float]:
        """See Generation."""
        return [0.5] * len(hyps)


def measure(learner: Learner, vocab: Vocab, batch_tokens: int) -> Cost:
    """Compute loss and gradient of made-up micro-batches, look at the memory and then at the time, and scale.

    A model that is quick with FEW sentences is timed with many, which a large machine likes better, and more than once,
    as other programs may hold a pass up.
    """
    most = max(1, min(batch_tokens, PROBE) // SENTENCE)
    few = _made_up(min(FEW, most), vocab)
    with torch.autograd.graph.saved_tensors_hooks(kept := _Kept(learner), lambda tensor: tensor):
        learn_once(learner, few)
    each = _seconds_a_sentence(learner, few)
    if each * FEW < LONG:
        many = _made_up(most, vocab)
        each = min(_seconds_a_sentence(learner, many) for _ in range(TIMES))
    sentences = batch_tokens / SENTENCE
    return Cost(seconds=each * sentences, activations=kept.bytes / len(few.samples) * sentences)


def _made_up(sentences: int, vocab: Vocab) -> Batch:
    return made_up_batch(sentences, SENTENCE, vocab, vocab)


def _seconds_a_sentence(learner: Learner, batch: Batch) -> float:
    began = time.perf_counter()
    learn_once(learner, batch)
    return (time.perf_counter() - began) / len(batch.samples)


class _Kept:
    """Counts the bytes that a forward pass keeps for the backward one, parameters left out."""

    def __init__(self, learner: Learner) -> None:
        self.seen = {p.untyped_storage().data_ptr() for p in learner.model.parameters()}
        self.bytes = 0

    def __call__(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.seen:
            self.seen.add(storage.data_ptr())
            self.bytes += storage.nbytes()
        return tensor


def _lines(recipe: Recipe, learner: Learner, cost: Cost) -> list[str]:
    training, tokenizer = recipe.training, recipe.tokenizer
    parameters = _parameters(learner)
    optimiser = PER_WEIGHT[training.optimiser.kind]
    if training.optimiser.kind == "sgd" and training.optimiser.momentum:
        optimiser = 4
    parts = {
        "weights": 4 * parameters,
        "gradients": 4 * parameters,
        "optimiser": optimiser * parameters,
        "moving average": 4 * parameters if training.moving_average else 0,
        "activations": cost.activations,
    }
    sharing = "shared" if tokenizer.shared else "a side"
    listed = ", ".join(f"{name} {_bytes(size)}" for name, size in parts.items() if size)
    threads = torch.get_num_threads()
    where = f"{threads} thread{'s' if threads > 1 else ''} of this CPU" if learner.device.type == "cpu" else "this GPU"
    lasting = duration(_seconds(recipe, cost))
    return [
        f"{recipe.name}: {recipe.model.kind}, {parameters:,} parameters, {tokenizer.vocab_size:,} pieces ({sharing})",
        f"memory of training: about {_bytes(sum(parts.values()))}: {listed}",
        f"time of training: about {lasting} on {where} in {training.precision}: {training.max_updates:,} updates of "
        f"{training.micro_batches} × {training.places:,} tokens; validation comes on top",
        f"(measured on a made-up micro-batch with sentences of {SENTENCE} tokens; the corpus was not looked at)",
    ]


def _bytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def duration(seconds: float) -> str:
    """Seconds for people, in the largest unit of which there are two."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} seconds"
