"""Parts of a model by the names that a recipe gives them, to be frozen or taken from another model."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from torch import nn

from mtkit.errors import RecipeError

# what a recipe calls the modules that a model has at its top
_SPOKEN = {
    "src_embedding": "embeddings.src",
    "tgt_embedding": "embeddings.tgt",
    "encoder_end": "encoder.end",
    "decoder_end": "decoder.end",
}


def tensor_names(model: nn.Module) -> dict[str, str]:
    """Every name of every weight, and the one that `weights.weights` gives it; a tied weight has several."""
    saved = model.state_dict().keys()
    first: dict[int, str] = {}
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[name] = first.setdefault(id(parameter), name)
    return names | {name: name for name, _ in model.named_buffers() if name in saved}


def select(model: nn.Module, parts: Sequence[str], *, key: str) -> dict[str, str]:
    """The weights of some parts: as `weights.weights` names each, and the first of its names that is in a part.

    Args:
        model: any model.
        parts: each a module's name with all that is in it, such as encoder, decoder.0 or embeddings.src; * and ? stand
            for what they stand for in names of files, as in encoder.*.feed_forward.
        key: of the recipe, for messages.

    Raises:
        RecipeError: a part is not one of this model.
    """
    found: dict[str, str] = {}
    for number, part in enumerate(parts):
        inside = within(model, part)
        if not inside:
            raise RecipeError(f"{key}.{number}: {part}: no part of this model{_close(part, tensor_names(model))}")
        found = inside | found
    return found


def within(model: nn.Module, part: str) -> dict[str, str]:
    """The weights of one part, none if it is no part of this model; see `select`."""
    names = reversed(tensor_names(model).items())
    return {first: name for name, first in names if any(fnmatchcase(outer, part) for outer in _outside(name))}


def freeze(model: nn.Module, parts: Sequence[str], *, key: str) -> int:
    """Keep the weights of some parts as they are; the optimiser never sees them. Gives how many numbers that are.

    Raises:
        RecipeError: as `select`, or there is nothing left to train.
    """
    frozen = select(model, parts, key=key)
    own = dict(model.named_parameters())
    for name in frozen.keys() & own.keys():
        own[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in own.values()):
        raise RecipeError(f"{key}: nothing is left to train; take a part out")
    return sum(own[name].numel() for name in frozen.keys() & own.keys())


def _outside(name: str) -> Iterator[str]:
    """All that a weight is inside of, with itself, as a recipe says it and as the model does."""
    first, _, rest = name.partition(".")
    for full in dict.fromkeys((f"{_SPOKEN.get(first, first)}.{rest}", name)):
        words = full.split(".")
        yield from (".".join(words[:end]) for end in range(1, len(words) + 1))


def _close(part: str, names: dict[str, str]) -> str:
    known = list(dict.fromkeys(outer for name in names for outer in _outside(name)))
    match = difflib.get_close_matches(part, known, n=1, cutoff=0.6)
    tops = dict.fromkeys(next(_outside(name)) for name in names)
    return f"; did you mean {match[0]}?" if match else f"; its parts are {', '.join(tops)}"
