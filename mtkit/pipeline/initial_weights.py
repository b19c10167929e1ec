"""Initial weights from pre-trained models and from files of word vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.errors import RecipeError
from mtkit.layers.projections import is_low_rank
from mtkit.layers.variants.head_gates import is_gate
from mtkit.model_folder.folder import LoadedModel, find_model, read_metadata, read_model
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.config import ModelConfig
from mtkit.models.embeddings import VOCAB_TENSORS
from mtkit.models.interface import TranslationModel
from mtkit.models.mismatches import first_of, shape_mismatches
from mtkit.models.transformer.config import TransformerConfig
from mtkit.recipe.sections import Recipe
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.word_vectors import read_token_vectors
from mtkit.training.config import InitFromConfig, WordVectorsConfig
from mtkit.training.weights import parameters_of, select_parameters, tensor_names, weights

Notify = Callable[[str, str], None]  # receives the name of a stage and a message


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
    other = read_model(config.model)
    parts = ["*"] if config.parts is None else config.parts
    names = select_parameters(model, parts, key=f"{key}.parts")
    own, pretrained = weights(model), _PretrainedWeights(other, tokenizers)
    values = {name: pretrained.value(alias, own[name]) for name, alias in names.items()}
    # a gate and an update of low rank begin with values of their own
    values = {
        name: value for name, value in values.items() if value is not None or not (is_gate(name) or is_low_rank(name))
    }
    found = {name: value.shape for name, value in values.items() if value is not None}
    unused: dict[str, Sequence[int]] = dict.fromkeys(pretrained.unused(parts), ())
    if mismatches := shape_mismatches({name: own[name].shape for name in values}, {**found, **unused}):
        listed = first_of(mismatches)
        raise RecipeError(f"{key}: {other.folder}: its weights do not match this recipe's model: {listed}")
    with torch.no_grad():
        for name, value in values.items():
            own[name].copy_(cast(Tensor, value))
    what = "all weights" if config.parts is None else ", ".join(config.parts)
    return "; ".join([f"{what} of {other.folder}", *pretrained.coverage()])


class _PretrainedWeights:
    """Weights of a pre-trained model, with embedding rows rearranged to the vocabularies of the new model."""

    def __init__(self, other: LoadedModel, tokenizers: TokenizerPair) -> None:
        self._model = other.model
        self._names = tensor_names(other.model)
        self._weights = weights(other.model)
        self._used: set[str] = set()
        self._rows: dict[str, NDArray[np.int64]] = {}  # by side: for each new token its pre-trained row, or -1
        sides = {"src": (other.tokenizers.src, tokenizers.src), "tgt": (other.tokenizers.tgt, tokenizers.tgt)}
        for side, (old, new) in sides.items():
            if old.hash() != new.hash():
                ids = {token: index for index, token in enumerate(old.ids_to_tokens(range(old.vocab.size)))}
                new_tokens = new.ids_to_tokens(range(new.vocab.size))
                self._rows[side] = np.array([ids.get(token, -1) for token in new_tokens])  # [V]

    def value(self, name: str, own: Tensor) -> Tensor | None:
        """Return the initial value of a weight.

        Args:
            own: its random value in the new model, kept in rows of tokens that the pre-trained model does not have.

        Returns:
            The value, of any shape; None if the pre-trained model has no weight of that name.
        """
        if name not in self._names:
            return None
        self._used.add(self._names[name])
        pretrained = self._weights[self._names[name]]
        rows = self._rows.get(VOCAB_TENSORS.get(name, ""))
        if rows is None or own.shape[1:] != pretrained.shape[1:]:
            return pretrained
        is_known = torch.from_numpy(rows >= 0).to(own.device)
        value = own.clone()
        value[is_known] = pretrained[torch.from_numpy(rows[rows >= 0])].to(own)
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
