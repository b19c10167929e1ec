"""Architecture and cost of the model of a recipe or a model folder, without a corpus and without weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mtkit.describe.cost import ModelCost, count_cost
from mtkit.describe.module_tree import ModuleNode, module_tree
from mtkit.errors import RecipeError, UsageError
from mtkit.model_folder.config_file import verified
from mtkit.model_folder.folder import find_model, read_metadata, read_tokenizers
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.interface import TranslationModel
from mtkit.models.skip_init import build_on_meta
from mtkit.recipe.recipe import load_recipe
from mtkit.text.subword.import_tokenizer import planned_vocab_sizes

DEFAULT_LENGTH = 30  # tokens per side with the end of sentence; typical of news


@dataclass(frozen=True)
class Architecture:
    """Configuration of a model with the sizes of its vocabularies."""

    name: str
    config: ModelConfigBase
    src_vocab: int
    tgt_vocab: int

    def build(self) -> TranslationModel:
        """Build the model on the meta device.

        Raises:
            RecipeError: model and vocabularies do not match.
        """
        try:
            return build_on_meta(lambda: self.config.build(self.src_vocab, self.tgt_vocab))
        except ValueError as error:
            raise RecipeError(f"model.{error}") from error


@dataclass(frozen=True)
class ModelDescription:
    """Architecture with its module tree and its cost."""

    architecture: Architecture
    tree: ModuleNode
    cost: ModelCost

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON values; FLOPs and bytes (float32) are per token of a sentence pair."""
        return {
            "name": self.architecture.name,
            "kind": self.architecture.config.kind,
            "vocabulary": {"src": self.architecture.src_vocab, "tgt": self.architecture.tgt_vocab},
            "parameters": self.tree.parameters,
            "sentence_length": self.cost.length,
            "flops_forward": self.tree.flops,
            "flops_training": self.cost.training,
            "activation_bytes": self.tree.activations,
            "decoding_bytes": asdict(self.cost.decoding),
            "modules": asdict(self.tree),
        }


def load_architecture(name_or_path: str, overrides: Sequence[str] = ()) -> Architecture:
    """Read the architecture of a recipe, a model folder or a run folder.

    For a recipe, both vocabularies are assumed to have the size that the recipe requests.

    Raises:
        MissingInputError, RecipeError, DataError: there is no such recipe or model, or it is invalid.
        UsageError: overrides were given for a model folder.
    """
    path = Path(name_or_path)
    if not path.is_dir():
        recipe = load_recipe(name_or_path, overrides, allow_commands=True)
        return Architecture(recipe.name, recipe.model, *planned_vocab_sizes(recipe.tokenizer))
    if overrides:
        raise UsageError(f"{overrides[0]}: overrides apply to recipes, but {path} is a model; describe its recipe")
    folder = find_model(path)
    with verified(folder):
        metadata = read_metadata(folder)
        tokenizers = read_tokenizers(folder, metadata)
    return Architecture(path.resolve().name, metadata.model, tokenizers.src.vocab.size, tokenizers.tgt.vocab.size)


def describe(architecture: Architecture, *, length: int = DEFAULT_LENGTH) -> ModelDescription:
    """Build the model on the meta device and count its parameters, FLOPs and memory.

    Args:
        architecture: see `load_architecture`.
        length: tokens per side of each sentence, including the end of sentence.

    Raises:
        RecipeError: model and vocabularies do not match.
        DataError: the model does not support sentences of this length.
    """
    model = architecture.build()
    cost = count_cost(model, architecture.src_vocab, architecture.tgt_vocab, length=length)
    return ModelDescription(architecture, module_tree(model, cost, architecture.name), cost)
