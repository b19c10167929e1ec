"""Trial of a training: its learner on dummy batches, without the corpus, for measuring time and memory."""

from __future__ import annotations

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
from mtkit.corpus.order.batch import Source
from mtkit.corpus.order.dummy_batch import dummy_batch
from mtkit.errors import ComputeError
from mtkit.hardware import default_device, free_memory, has_bf16
from mtkit.io.counts import format_bytes
from mtkit.models.interface import TranslationModel
from mtkit.models.skip_init import SkipInit, build_on_meta
from mtkit.recipe.sections import Recipe
from mtkit.text.subword.import_tokenizer import planned_vocab_sizes
from mtkit.text.train_tokenizer import require_vocab_for_text
from mtkit.text.vocab import Vocab
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.key_types import PrecisionName, RewardName
from mtkit.training.learner import Learner
from mtkit.training.robustness.batch_size_search import find_max_batch_tokens

WEIGHT_AND_GRADIENT_BYTES = 8  # of each parameter


@dataclass(frozen=True)
class TrialTraining:
    """A training on dummy batches; the vocabulary has the size in the recipe.

    Attributes:
        recipe: with `auto` replaced by the values for this machine.
        learner: with uninitialised weights.
    """

    recipe: Recipe
    learner: Learner

    @classmethod
    def of(cls, recipe: Recipe) -> TrialTraining:
        """Build the training of a recipe.

        Raises:
            RecipeError: sections of the recipe are incompatible.
            ComputeError: weights and gradients do not fit into the memory of this machine.
            DataError: `tokenizer.vocab_size` leaves no token for text.
        """
        recipe = replace(recipe, training=resolve_auto_precision(recipe.training))
        learner = _build_learner(recipe)
        if recipe.training.batch_tokens == "auto":
            make_batch = partial(dummy_batch, src=_vocab(recipe), tgt=_vocab(recipe))
            batch_tokens = find_max_batch_tokens(learner, SENTENCE_TOKENS, make_batch)
            recipe = replace(recipe, training=replace(recipe.training, batch_tokens=batch_tokens))
            learner = _build_learner(recipe)
        return cls(recipe, learner)

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(p.numel() for p in self.learner.model.parameters())

    def cost(self) -> MicroBatchCost:
        """Measure the cost of a micro-batch."""
        return measure_cost(self.learner, _vocab(self.recipe), self.recipe.training.resolved_batch_tokens)

    def seconds_per_update(self) -> float:
        """Measure the time of an update, with micro-batches of the recipe's size.

        Small models need most of the time of a small micro-batch for overhead, so that it cannot be scaled up.
        """
        training, vocab = self.recipe.training, _vocab(self.recipe)
        return training.micro_batches * median_seconds(self.learner, vocab, training.resolved_batch_tokens)


def seconds_per_update(recipe: Recipe) -> float:
    """Measure the time of an update of a recipe on this machine; errors as `TrialTraining.of`."""
    return TrialTraining.of(recipe).seconds_per_update()


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
            f"model: weights and gradients of {parameters:,} parameters need {format_bytes(needed)}, and this machine "
            f"has {format_bytes(available)} of free memory; reduce the model or tokenizer.vocab_size"
        )


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
