"""The adapter of a finished training: its own folder, and its weights merged into the model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from torch import Tensor

from mtkit.assembly.training import build_modules
from mtkit.errors import MissingInputError
from mtkit.io.files import hash_file
from mtkit.layers.low_rank import DOWN, UP, merge_low_rank
from mtkit.model_folder.adapter_folder import write_lora, write_trained
from mtkit.model_folder.config_file import WEIGHTS
from mtkit.model_folder.folder import find_model
from mtkit.models.skip_init import build_on_meta
from mtkit.recipe.sections import Recipe
from mtkit.training.adapters import LoRAConfig, NormAdapterConfig


def finish_adapter(
    recipe: Recipe, vocab_sizes: tuple[int, int], tensors: Mapping[str, Tensor], output: Path
) -> dict[str, Tensor]:
    """Write the trained weights of an adapter into a folder; return the weights of the model with it merged.

    Without an adapter, nothing is written.

    Raises:
        ReadWriteError: the folder cannot be written.
    """
    adapter = recipe.training.adapter
    if adapter is None:
        return dict(tensors)
    base = None
    with suppress(MissingInputError):  # the model may have been deleted since
        base = hash_file(find_model(recipe.training.init_from_list[-1].model) / WEIGHTS)
    if isinstance(adapter, LoRAConfig):
        updates = {name: tensor for name, tensor in tensors.items() if name.endswith((DOWN, UP))}
        write_lora(output, updates, rank=adapter.rank, alpha=adapter.alpha, base=base)
    else:
        model = build_on_meta(partial(build_modules, recipe, *vocab_sizes))
        names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        trained = {name: tensors[name] for name in names}
        write_trained(output, trained, norms=isinstance(adapter, NormAdapterConfig), base=base)
    return merge_low_rank(tensors)
