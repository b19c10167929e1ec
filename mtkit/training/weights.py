"""Weights of a model by name, tied ones once, and those that patterns select, to freeze or to initialise them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from torch import Tensor, nn

from mtkit.errors import RecipeError
from mtkit.models.mismatches import first_of, shape_mismatches
from mtkit.training.distributed import copy_into_shard


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers by name; a tied weight has the first of its names."""
    saved = model.state_dict().keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved}
    return {**{name: p.detach() for name, p in model.named_parameters()}, **buffers}


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors that `weights` returned into a model.

    Raises:
        ValueError: they are the weights of another model; the first mismatches are listed.
    """
    model_weights = weights(model)
    shapes = ({name: tensor.shape for name, tensor in each.items()} for each in (model_weights, tensors))
    if mismatches := shape_mismatches(*shapes):
        raise ValueError(f"these are not the weights of this model: {first_of(mismatches)}")
    for name, tensor in tensors.items():
        copy_into_shard(model_weights[name], tensor)


# names of a model's child modules in recipes, where they differ from those of the attributes
_PUBLIC_NAMES = {
    "src_embedding": "embeddings.src",
    "tgt_embedding": "embeddings.tgt",
    "encoder_norm": "encoder.norm",
    "decoder_norm": "decoder.norm",
}


def tensor_names(model: nn.Module) -> dict[str, str]:
    """Map every name of every weight to its name in `weights.weights`; a tied weight has several names."""
    saved = model.state_dict().keys()
    first: dict[int, str] = {}
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[name] = first.setdefault(id(parameter), name)
    return names | {name: name for name, _ in model.named_buffers() if name in saved}


def select_parameters(model: nn.Module, parts: Sequence[str], *, key: str) -> dict[str, str]:
    """Select the weights of some parts of a model.

    Args:
        parts: names of modules or weights, such as encoder, decoder.0 or embeddings.src, with the wildcards * and ? of
            file names, as in encoder.*.feed_forward. A module includes everything inside it.
        key: of the recipe, for messages.

    Returns:
        For each weight its name in `weights.weights`, and the first of its names that is in one of the parts.

    Raises:
        RecipeError: the model has no such part.
    """
    selected: dict[str, str] = {}
    for number, part in enumerate(parts):
        inside = parameters_of(model, part)
        if not inside:
            names = tensor_names(model)
            known = list(dict.fromkeys(outer for name in names for outer in _enclosing_names(name)))
            match = difflib.get_close_matches(part, known, n=1, cutoff=0.6)
            top_level = dict.fromkeys(next(_enclosing_names(name)) for name in names)
            hint = f"did you mean {match[0]}?" if match else f"its parts are {', '.join(top_level)}"
            raise RecipeError(f"{key}.{number}: {part}: no part of this model; {hint}")
        selected = inside | selected
    return selected


def parameters_of(model: nn.Module, part: str) -> dict[str, str]:
    """Select the weights of one part, see `select_parameters`; none if the model has no such part."""
    names = reversed(tensor_names(model).items())  # so that of several names of a tied weight the first remains
    return {first: name for name, first in names if any(fnmatchcase(outer, part) for outer in _enclosing_names(name))}


def freeze(model: nn.Module, parts: Sequence[str], *, key: str) -> int:
    """Exclude the weights of some parts from training; return their number of elements.

    Raises:
        RecipeError: as `select_parameters`, or no weight is left to train.
    """
    frozen = select_parameters(model, parts, key=key)
    parameters = [parameter for name, parameter in model.named_parameters() if name in frozen]
    for parameter in parameters:
        parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RecipeError(f"{key}: no weights are left to train; remove a part from the list")
    return sum(parameter.numel() for parameter in parameters)


def _enclosing_names(name: str) -> Iterator[str]:
    """Yield the names of a weight and of the modules around it, in recipes and in the model."""
    first, _, rest = name.partition(".")
    for full in dict.fromkeys((f"{_PUBLIC_NAMES.get(first, first)}.{rest}", name)):
        words = full.split(".")
        yield from (".".join(words[:end]) for end in range(1, len(words) + 1))
