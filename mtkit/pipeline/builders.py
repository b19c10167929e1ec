"""Building a training from a recipe: model with its initial weights, data loader, objective and teacher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.config import construct
from mtkit.corpus.config import CorpusFiles, MonolingualFile
from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.noise import Corpus, DenoisingCorpus, Noise, NoiseVocab
from mtkit.corpus.order.loader import Loader
from mtkit.corpus.store import Store
from mtkit.errors import MissingInputError, RecipeError
from mtkit.hardware import default_device
from mtkit.layers.projections import is_low_rank
from mtkit.layers.variants.head_gates import is_gate
from mtkit.model_folder.folder import StoredModel, find_model, read_metadata, read_model, read_stored_model
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.config import ModelConfig
from mtkit.models.embeddings import VOCAB_TENSORS
from mtkit.models.interface import TranslationModel
from mtkit.models.mismatches import first_of, shape_mismatches
from mtkit.models.skip_init import build_on_meta
from mtkit.models.transformer.config import TransformerConfig
from mtkit.recipe.sections import Recipe
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.word_vectors import read_token_vectors
from mtkit.training.config import InitFromConfig, TrainingConfig, WordVectorsConfig
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.distributed import SINGLE_PROCESS, ProcessGroup
from mtkit.training.numerics import resolve_precision, seed_everything
from mtkit.training.objectives.config import DistillationConfig
from mtkit.training.objectives.interface import ObjectiveInputs, TrainingObjective, TranslationSampler
from mtkit.training.weights import parameters_of, select_parameters, tensor_names, weights

Notify = Callable[[str, str], None]  # receives the name of a stage and a message


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
    training, corpora = recipe.training, corpora_with_noise(recipe, recipe.corpus.train, stores, tokenizers)
    return Loader(
        corpora,
        tokenizers,
        weights=recipe.corpus.weights(list(map(len, stores))),
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


def with_pruned_heads(model: ModelConfig, sources: Sequence[InitFromConfig]) -> ModelConfig:
    """A model's configuration with the head counts of the pruned model that its weights come from, unless it has some.

    A pruned model is then trained further by the recipe of the whole one and `training.init_from`.

    Raises:
        RecipeError: the counts do not fit the model.
        MissingInputError, DataError: the pruned model cannot be read.
    """
    for config in sources:
        if config.parts is None and _can_take_heads(model):
            pruned = read_metadata(find_model(config.model)).model
            try:
                model = with_heads_of(pruned, model)
            except ValueError as error:
                raise RecipeError(f"training.init_from: {config.model}: heads were pruned: model.{error}") from error
    return model


def with_heads_of(pruned: ModelConfigBase, model: ModelConfig) -> ModelConfig:
    """A model's configuration with the head counts of another, unless it states its own or is of another family.

    Raises:
        ValueError: the counts do not fit the model.
    """
    if not isinstance(pruned, TransformerConfig) or not isinstance(model, TransformerConfig):
        return model
    if not _can_take_heads(model) or _can_take_heads(pruned):
        return model
    counts = {key: each.counts for key, each in pruned.head_counts().items()}
    return replace(model, **counts)  # type: ignore[arg-type]


def _can_take_heads(model: ModelConfigBase) -> bool:
    """Return whether a model is a Transformer without head counts of its own."""
    return isinstance(model, TransformerConfig) and all(each.counts is None for each in model.head_counts().values())


def initialise(model: TranslationModel, recipe: Recipe, tokenizers: TokenizerPair, notify: Notify) -> None:
    """Load the pre-trained weights and word vectors of a recipe into a model.

    Word vectors are loaded last and overwrite embeddings of pre-trained models.

    Args:
        recipe: with `training.init_from` and `training.word_vectors`.
        notify: receives a message about each source of weights.

    Raises:
        RecipeError: a part is not in the model, or weights have other shapes.
        MissingInputError, DataError: a model or file cannot be read.
    """
    for number, config in enumerate(recipe.training.init_from_list):
        key = f"training.init_from.{number}" if isinstance(recipe.training.init_from, list) else "training.init_from"
        notify("init_from", load_pretrained(model, tokenizers, config, key=key))
    if recipe.training.word_vectors is not None:
        for message in load_word_vectors(model, recipe.training.word_vectors, tokenizers):
            notify("word_vectors", message)


def load_pretrained(model: TranslationModel, tokenizers: TokenizerPair, config: InitFromConfig, *, key: str) -> str:
    """Copy all weights or some parts of another model.

    If the vocabularies differ, embedding rows are matched by token; rows of unknown tokens keep their random values.

    Args:
        tokenizers: of `model`.

    Returns:
        A message with the copied parts and the number of matched tokens.

    Raises:
        RecipeError: a part is not in this model, or its weights differ in name or shape.
        MissingInputError, DataError: as `read_model`.
    """
    other = read_stored_model(config.model, releases_pages=True)  # not in memory as a whole, beside the new one
    parts = ["*"] if config.parts is None else config.parts
    names = select_parameters(model, parts, key=f"{key}.parts")
    initial, pretrained = weights(model), _PretrainedWeights(other, tokenizers)
    values = {name: pretrained.value(alias, initial[name]) for name, alias in names.items()}
    # a gate and an update of low rank begin with values of their own
    values = {
        name: value for name, value in values.items() if value is not None or not (is_gate(name) or is_low_rank(name))
    }
    found = {name: value.shape for name, value in values.items() if value is not None}
    unused: dict[str, Sequence[int]] = dict.fromkeys(pretrained.unused(parts), ())
    if mismatches := shape_mismatches({name: initial[name].shape for name in values}, {**found, **unused}):
        listed = first_of(mismatches)
        raise RecipeError(f"{key}: {other.folder}: its weights do not match this recipe's model: {listed}")
    with torch.no_grad():
        for name, value in values.items():
            initial[name].copy_(cast(Tensor, value))
            other.release_pages()
    what = "all weights" if config.parts is None else ", ".join(config.parts)
    return "; ".join([f"{what} of {other.folder}", *pretrained.coverage()])


class _PretrainedWeights:
    """Weights of a pre-trained model, with embedding rows rearranged to the vocabularies of the new model."""

    def __init__(self, other: StoredModel, tokenizers: TokenizerPair) -> None:
        self._model = build_on_meta(partial(other.metadata.model.build, *other.tokenizers.vocab_sizes))
        self._names = tensor_names(self._model)
        self._weights = other.weights
        self._used: set[str] = set()
        self._rows: dict[str, NDArray[np.int64]] = {}  # by side: for each new token its pre-trained row, or -1
        sides = {"src": (other.tokenizers.src, tokenizers.src), "tgt": (other.tokenizers.tgt, tokenizers.tgt)}
        for side, (old, new) in sides.items():
            if old.hash() != new.hash():
                ids = {token: index for index, token in enumerate(old.ids_to_tokens(range(old.vocab.size)))}
                new_tokens = new.ids_to_tokens(range(new.vocab.size))
                self._rows[side] = np.array([ids.get(token, -1) for token in new_tokens])  # [V]

    def value(self, name: str, initial: Tensor) -> Tensor | None:
        """Return the initial value of a weight.

        Args:
            initial: its random value in the new model, kept in rows of tokens that the pre-trained model does not have.

        Returns:
            The value, of any shape; None if the pre-trained model has no weight of that name.
        """
        if name not in self._names:
            return None
        self._used.add(self._names[name])
        pretrained = torch.from_numpy(self._weights[self._names[name]])
        rows = self._rows.get(VOCAB_TENSORS.get(name, ""))
        if rows is None or initial.shape[1:] != pretrained.shape[1:]:
            return pretrained
        is_known = torch.from_numpy(rows >= 0).to(initial.device)
        value = initial.clone()
        value[is_known] = pretrained[torch.from_numpy(rows[rows >= 0])].to(initial)
        return value

    def unused(self, parts: Sequence[str]) -> set[str]:
        """Return the names of pre-trained weights in these parts that `value` was not called for."""
        return {name for part in parts for name in parameters_of(self._model, part)} - self._used

    def coverage(self) -> list[str]:
        """Return a message for each side whose vocabularies differ: the number of matched tokens."""
        sides = {VOCAB_TENSORS[name] for name in self._used & VOCAB_TENSORS.keys()}
        words = {"src": "source", "tgt": "target"}
        return [
            f"it has {(rows >= 0).sum():,} of {len(rows):,} {words[side]} tokens"
            for side, rows in self._rows.items()
            if side in sides
        ]


def load_word_vectors(model: TranslationModel, config: WordVectorsConfig, tokenizers: TokenizerPair) -> list[str]:
    """Replace random embeddings by word vectors from files; return a message about each file.

    The vectors of a file are scaled by one factor to the root mean square of the random embeddings, which the layers
    above are initialised for. With tied embeddings, a token in both files gets its source vector.

    Raises:
        MissingInputError, DataError: as `read_token_vectors`.
        RecipeError: the model has no embedding for a side.
    """
    sides = {"src": (config.src, tokenizers.src), "tgt": (config.tgt, tokenizers.tgt)}
    rms = {
        name: float(weight.square().mean().sqrt()) for name, weight in weights(model).items() if name in VOCAB_TENSORS
    }
    names, loaded_ids, messages = tensor_names(model), dict[str, NDArray[np.int64]](), []
    for side, (path, tokenizer) in sides.items():
        if path is None:
            continue
        name = names[f"{side}_embedding.table.weight"]
        table = weights(model)[name]  # [V, D]
        vectors = read_token_vectors(path, tokenizer, table.size(1))
        scale = rms[name] / max(float(np.sqrt(np.square(vectors.values).mean())), 1e-12)
        is_new = ~np.isin(vectors.ids, loaded_ids.get(name, []))
        with torch.no_grad():
            values = torch.from_numpy(vectors.values[is_new] * np.float32(scale))
            table[torch.from_numpy(vectors.ids[is_new])] = values.to(table)
        loaded_ids[name] = vectors.ids
        count, share = f"{len(vectors.ids):,} of {vectors.num_tokens:,} tokens", len(vectors.ids) / vectors.num_tokens
        messages.append(f"{path}: {count} ({share:.0%}) are among its {vectors.num_words:,} words")
    return messages
