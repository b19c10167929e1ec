"""A model's architecture and what it costs, from a recipe or a model folder, without a corpus and without weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mtkit.build.skip_init import META, Undrawn
from mtkit.describe.cost import Cost, measure
from mtkit.describe.parts import Part, part_of
from mtkit.errors import RecipeError, UsageError
from mtkit.model_folder.folder import find_model, read_description, read_tokenizers
from mtkit.models.interface import TranslationModel
from mtkit.recipe.recipe import ModelConfig, load_recipe

LENGTH = 30  # tokens of either side, the end included: about what a sentence of news has


@dataclass(frozen=True)
class Architecture:
    """What a model is built of, with the sizes of its vocabularies."""

    name: str
    config: ModelConfig
    src_vocab: int
    tgt_vocab: int

    def build(self) -> TranslationModel:
        """The model without weights.

        Raises:
            RecipeError: model and vocabularies do not fit.
        """
        try:
            with Undrawn(META):
                return self.config.build(self.src_vocab, self.tgt_vocab)
        except ValueError as error:
            raise RecipeError(f"model.{error}") from error


@dataclass(frozen=True)
class Description:
    """An architecture with its parts and costs."""

    architecture: Architecture
    model: Part
    cost: Cost

    def as_dict(self) -> dict[str, Any]:
        """For JSON; figures are for each token of a sentence pair, bytes in float32."""
        return {
            "name": self.architecture.name,
            "kind": self.architecture.config.kind,
            "vocabulary": {"src": self.architecture.src_vocab, "tgt": self.architecture.tgt_vocab},
            "parameters": self.model.parameters,
            "sentence_length": self.cost.length,
            "flops_forward": self.model.flops,
            "flops_training": self.cost.training,
            "activation_bytes": self.model.activations,
            "decoding_bytes": asdict(self.cost.decoding),
            "parts": asdict(self.model),
        }


def find(name_or_path: str, overrides: Sequence[str] = ()) -> Architecture:
    """The architecture that a recipe, a model folder or a run folder states.

    Of a recipe the vocabulary is taken to have the size that it asks for.

    Raises:
        MissingInputError, RecipeError, DataError: there is none, or it is wrong.
        UsageError: a model cannot be changed by overrides.
    """
    path = Path(name_or_path)
    if not path.is_dir():
        recipe = load_recipe(name_or_path, overrides)
        size = recipe.tokenizer.vocab_size
        return Architecture(recipe.name, recipe.model, size, size)
    if overrides:
        raise UsageError(f"{overrides[0]}: changes a recipe, and {path} is a model; describe its recipe")
    folder = find_model(path)
    description = read_description(folder)
    pair = read_tokenizers(folder, description.tokenizer)
    return Architecture(path.resolve().name, description.model, pair.src.vocab.size, pair.tgt.vocab.size)


def describe(architecture: Architecture, *, length: int = LENGTH) -> Description:
    """Build the model without weights and count.

    Args:
        architecture: see `find`.
        length: tokens of either side of each sentence, the end of sentence included.

    Raises:
        RecipeError: model and vocabularies do not fit.
        DataError: the model takes no sentences of this length.
    """
    model = architecture.build()
    cost = measure(model, architecture.src_vocab, architecture.tgt_vocab, length=length)
    return Description(architecture, part_of(model, cost, architecture.name), cost)
