"""Building a training from a recipe: model, data loader, objective and teacher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from mtkit.config import construct
from mtkit.corpus.config import CorpusFiles, MonolingualFile
from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.noise import Corpus, DenoisingCorpus, Noise, NoiseVocab
from mtkit.corpus.order.loader import Loader
from mtkit.corpus.store import Store
from mtkit.errors import MissingInputError, RecipeError
from mtkit.hardware import default_device
from mtkit.model_folder.folder import find_model, read_model
from mtkit.models.interface import TranslationModel
from mtkit.pipeline.initial_weights import Notify, initialise
from mtkit.recipe.sections import Recipe
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.config import TrainingConfig
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.distributed import SINGLE_PROCESS, ProcessGroup
from mtkit.training.numerics import resolve_precision, seed_everything
from mtkit.training.objectives.config import DistillationConfig
from mtkit.training.objectives.interface import ObjectiveInputs, TrainingObjective, TranslationSampler


def resolve_auto_precision(training: TrainingConfig) -> TrainingConfig:
    """Replace `training.precision: auto` by the best precision for this machine."""
    return replace(training, precision=resolve_precision(training.precision, default_device()).name)


def build_model(recipe: Recipe, tokenizers: TokenizerPair, notify: Notify) -> TranslationModel:
    """Build the model of a recipe with its initial weights, on the training device.

    Args:
        notify: receives a message about each source of pre-trained weights.

    Raises:
        RecipeError: the model does not match the vocabularies, or `training.init_from` does not match the model.
        MissingInputError, DataError: pre-trained weights cannot be read.
    """
    model = build_architecture(recipe, tokenizers.vocab_sizes)
    initialise(model, recipe, tokenizers, notify)
    return model


def build_architecture(
    recipe: Recipe, vocab_sizes: tuple[int, int], *, device: torch.device | None = None
) -> TranslationModel:
    """Build the model of a recipe, with its adapter and random weights from the recipe's seed.

    Args:
        vocab_sizes: numbers of source and target tokens.
        device: None: the training device.

    Raises:
        RecipeError: the model does not match the vocabularies.
    """
    seed_everything(recipe.training.seed)
    try:
        model = recipe.model.build(*vocab_sizes)
    except ValueError as error:
        raise RecipeError(f"model.{error}") from error
    if recipe.training.adapter is not None:
        recipe.training.adapter.attach(model)
    return model.to(device or default_device())


def build_loader(
    recipe: Recipe, stores: Sequence[Store], tokenizers: TokenizerPair, *, ranks: ProcessGroup = SINGLE_PROCESS
) -> Loader:
    """Build the loader of the micro-batches that this process computes.

    Raises:
        RecipeError, DataError: as `Loader`.
    """
    weights = tuple(files.weight for files in recipe.corpus.train if files.weight is not None)
    training, corpora = recipe.training, corpora_with_noise(recipe, recipe.corpus.train, stores, tokenizers)
    return Loader(
        corpora,
        tokenizers,
        weights=weights,
        seed=training.seed,
        batch_tokens=training.resolved_batch_tokens,
        micro_batches=training.micro_batches,
        subword_regularization=recipe.tokenizer.subword_regularization,
        rank=ranks.rank,
        world_size=ranks.world_size,
    )


def with_updates_of_epochs(recipe: Recipe, loader: Loader) -> Recipe:
    """Return a recipe whose `max_updates` ends the training; `training.max_epochs` is None if that is longer."""
    training = recipe.training
    if training.max_epochs is None:
        return recipe
    updates = loader.count_updates(training.max_epochs)
    is_shorter = updates < training.max_updates
    training = replace(training, max_updates=updates) if is_shorter else replace(training, max_epochs=None)
    return replace(recipe, training=training)


def corpora_with_noise(
    recipe: Recipe, files: Sequence[CorpusFiles], stores: Sequence[Store], tokenizers: TokenizerPair
) -> tuple[Corpus, ...]:
    """Return the corpora to train or validate on: the pairs as they are, or noised text with its original."""
    if recipe.corpus.noise is None:
        return tuple(stores)
    noise: Noise = construct(recipe.corpus.noise, NoiseVocab.of(tokenizers.src))
    pairs = zip(files, stores, strict=True)
    return tuple(DenoisingCorpus(store, noise) if isinstance(file, MonolingualFile) else store for file, store in pairs)


def build_objective(
    training: TrainingConfig,
    vocab_ids: TargetVocabIds,
    sampler: TranslationSampler,
    *,
    teacher: TranslationModel | None = None,
    lexicon: Lexicon | None = None,
) -> TrainingObjective:
    """Build the objective of a recipe, with its decoder input.

    Args:
        sampler: samples translations from the model, for objectives that need them.
        teacher: from `load_teacher`.
    """
    inputs = ObjectiveInputs(
        construct(training.decoder_input, vocab_ids),
        smoothing=training.label_smoothing,
        vocab_ids=vocab_ids,
        translation_sampler=sampler,
        teacher=teacher,
        lexicon=lexicon,
    )
    objective: TrainingObjective = construct(training.objective, inputs)
    return objective


def find_teacher(path: Path) -> Path:
    """The model folder of a teacher.

    Raises:
        MissingInputError, DataError, UsageError: as `find_model`; a message about a missing model names the key.
    """
    try:
        return find_model(path)
    except MissingInputError as error:
        raise MissingInputError(f"training.objective.teacher: {error}") from error


def load_teacher(
    recipe: Recipe, model: TranslationModel, tokenizers: TokenizerPair | None = None
) -> TranslationModel | None:
    """Load the teacher of an objective that distils one, on the device of the model; None for other objectives.

    Args:
        tokenizers: of the student; None: the vocabularies are not compared.

    Raises:
        RecipeError: the teacher has another vocabulary, or states of another width, which the cosine loss compares.
        MissingInputError, DataError: as `read_model`.
    """
    objective = recipe.training.objective
    if objective.teacher_model is None:
        return None
    loaded, key = read_model(find_teacher(objective.teacher_model)), "training.objective.teacher"
    if tokenizers is not None and loaded.tokenizers.hash() != tokenizers.hash():
        raise RecipeError(
            f"{key}: {loaded.folder}: its vocabulary is not that of this training; a student needs its teacher's "
            f"tokenizer: set training.init_from to the teacher, or to a model that mtkit compress made from it"
        )
    widths = [each.output.weight.size(1) for each in (loaded.model, model)]
    if isinstance(objective, DistillationConfig) and objective.cosine and widths[0] != widths[1]:
        raise RecipeError(
            f"training.objective.cosine: compares states of the same width, but the teacher's have {widths[0]} numbers "
            f"and the student's {widths[1]}; set it to 0"
        )
    return loaded.model.to(next(model.parameters()).device)
