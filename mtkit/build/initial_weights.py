"""Weights that do not begin at random: those of another model, or embeddings from files of word vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.errors import RecipeError
from mtkit.model_folder.folder import Loaded, read_model
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.model import Transformer
from mtkit.recipe.recipe import Recipe
from mtkit.text.sentence_ends import sentence_ends
from mtkit.text.tokenizer import Tokenizer, TokenizerPair
from mtkit.text.word_vectors import read_piece_vectors
from mtkit.training.init_config import InitFromConfig, WordVectorsConfig
from mtkit.training.parameter_selection import select, tensor_names, within
from mtkit.training.weights import weights

Say = Callable[[str, str], None]  # is told what became of a stage


# weights that have a row for each piece, and whose pieces these are
_ROWS = {
    "src_embedding.table.weight": "src",
    "tgt_embedding.table.weight": "tgt",
    "output.weight": "tgt",
    "output.bias": "tgt",
    "sentence_ends.table": "src",
}


def begin(model: TranslationModel, recipe: Recipe, tokenizers: TokenizerPair, say: Say) -> None:
    """Give an untrained model the weights that its recipe names, and say how many pieces found theirs.

    Word vectors come after models: where both name embeddings, theirs stay. Which pieces end a sentence is told to a
    model that asks for it.

    Raises:
        RecipeError: a part is not one of the model, or the weights do not fit.
        MissingInputError, DataError: a model or file cannot be read.
    """
    for number, config in enumerate(recipe.training.beginnings):
        key = f"training.init_from.{number}" if isinstance(recipe.training.init_from, list) else "training.init_from"
        say("init_from", take_weights(model, tokenizers, config, key=key))
    if recipe.training.word_vectors is not None:
        for sentence in take_vectors(model, recipe.training.word_vectors, tokenizers):
            say("word_vectors", sentence)
    if isinstance(model, Transformer) and model.sentence_ends is not None:
        ends = sentence_ends(tokenizers.src)
        model.sentence_ends.mark(ends)
        say("sentence_ends", f"{len(ends):,} of {tokenizers.src.vocab.size:,} source pieces end a sentence")


def take_weights(model: TranslationModel, tokenizers: TokenizerPair, config: InitFromConfig, *, key: str) -> str:
    """Copy parts of another model; rows of pieces that it does not know stay as they are. Gives a sentence on it.

    Raises:
        RecipeError: a part is not one of this model, or is another one there.
        MissingInputError, DataError: as `read_model`.
    """
    other = read_model(config.model)
    parts = ["*"] if config.parts is None else config.parts
    wanted = select(model, parts, key=f"{key}.parts")
    own, theirs = weights(model), _Theirs(other, tokenizers)
    values = {name: theirs.value(alias, own[name]) for name, alias in wanted.items()}
    faults = [f"{name} is missing" for name, value in values.items() if value is None]
    faults += [f"{name} is unknown" for name in theirs.unused(parts)]
    faults += [
        f"{name} is {list(value.shape)}, the model has {list(own[name].shape)}"
        for name, value in values.items()
        if value is not None and value.shape != own[name].shape
    ]
    if faults:
        shown = "; ".join(sorted(faults)[:3]) + (f"; and {len(faults) - 3} more" if len(faults) > 3 else "")
        raise RecipeError(f"{key}: {other.folder}: its weights do not fit this recipe's model: {shown}")
    with torch.no_grad():
        for name, value in values.items():
            own[name].copy_(cast(Tensor, value))
    what = "all weights" if config.parts is None else ", ".join(config.parts)
    return "; ".join([f"{what} of {other.folder}", *theirs.said()])


class _Theirs:
    """The weights of another model, with the rows of pieces where this one's vocabularies have them."""

    def __init__(self, other: Loaded, tokenizers: TokenizerPair) -> None:
        self._model = other.model
        self._names = tensor_names(other.model)
        self._weights = weights(other.model)
        self._used: set[str] = set()
        self._places: dict[str, NDArray[np.int64]] = {}
        both = {"src": (other.tokenizers.src, tokenizers.src), "tgt": (other.tokenizers.tgt, tokenizers.tgt)}
        for side, (before, now) in both.items():
            if before.hash() != now.hash():
                self._places[side] = _places(before, now)

    def value(self, name: str, own: Tensor) -> Tensor | None:
        """What becomes of a weight that is `own` now; None if the other model has none of that name."""
        if name not in self._names:
            return None
        self._used.add(self._names[name])
        theirs = self._weights[self._names[name]]
        places = self._places.get(_ROWS.get(name, ""))
        if places is None or own.shape[1:] != theirs.shape[1:]:
            return theirs
        known = torch.from_numpy(places >= 0).to(own.device)
        value = own.clone()
        value[known] = theirs[torch.from_numpy(places[places >= 0])].to(own)
        return value

    def unused(self, parts: Sequence[str]) -> set[str]:
        """What these parts have there and `value` was not asked for."""
        return {name for part in parts for name in within(self._model, part)} - self._used

    def said(self) -> list[str]:
        """How many pieces have rows, if vocabularies differ."""
        sides = {_ROWS[name] for name in self._used & _ROWS.keys()}
        words = {"src": "source", "tgt": "target"}
        return [
            f"{(places >= 0).sum():,} of {len(places):,} {words[side]} pieces are known there"
            for side, places in self._places.items()
            if side in sides
        ]


def _places(before: Tokenizer, now: Tokenizer) -> NDArray[np.int64]:
    """For each piece of a vocabulary its id in an earlier one, or -1."""
    ids = {name: number for number, name in enumerate(before.pieces(range(before.vocab.size)))}
    return np.array([ids.get(name, -1) for name in now.pieces(range(now.vocab.size))])


def take_vectors(model: TranslationModel, config: WordVectorsConfig, tokenizers: TokenizerPair) -> list[str]:
    """Put the vectors of files in the place of random embeddings; gives a sentence on each file.

    All vectors of a file are multiplied by one number, so that they are as large on average as the random ones were:
    the layers behind expect that. Where both sides have one table, a piece that both files know has its source vector.

    Raises:
        MissingInputError, DataError: as `read_piece_vectors`.
        RecipeError: the model has no table for a side.
    """
    sides = {"src": (config.src, tokenizers.src), "tgt": (config.tgt, tokenizers.tgt)}
    size = {name: float(weight.square().mean().sqrt()) for name, weight in weights(model).items() if name in _ROWS}
    names, done, said = tensor_names(model), dict[str, NDArray[np.int64]](), []
    for side, (path, tokenizer) in sides.items():
        if path is None:
            continue
        name = names[f"{side}_embedding.table.weight"]
        table = weights(model)[name]  # [V, D]
        found = read_piece_vectors(path, tokenizer, table.size(1))
        scale = size[name] / max(float(np.sqrt(np.square(found.values).mean())), 1e-12)
        is_new = ~np.isin(found.ids, done.get(name, []))
        with torch.no_grad():
            values = torch.from_numpy(found.values[is_new] * np.float32(scale))
            table[torch.from_numpy(found.ids[is_new])] = values.to(table)
        done[name] = found.ids
        count, share = f"{len(found.ids):,} of {found.pieces:,} pieces", len(found.ids) / found.pieces
        said.append(f"{path}: {count} ({share:.0%}) are among its {found.words:,} words")
    return said
