"""Gradient over distance: how much of the loss of one token reaches the embeddings of the tokens before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.errors import UsageError
from mtkit.model_folder.folder import read_model
from mtkit.models.interface import TranslationModel
from mtkit.plot.gradients import GradientCurve, draw_gradients
from mtkit.recipe.recipe import load_recipe
from mtkit.training.seeding import seed_everything

NUM_SENTENCES = 16  # random sentences over which norms are averaged
MAX_LENGTH = 64  # tokens of the random targets
TINY = 1e-30  # of a gradient that is 0 everywhere
RECIPE_VOCAB = 1000  # tokens of an untrained model; embeddings of rare tokens do not matter here


@dataclass(frozen=True)
class _NamedModel:
    """A model, the name of its curve, the sizes of its vocabularies, and its longest target; None: any length."""

    name: str
    model: TranslationModel
    src_vocab: int
    tgt_vocab: int
    max_length: int | None


def plot_gradients(names_or_paths: Sequence[str], output: Path) -> None:
    """Draw the gradient over distance of recipes, with initial weights, and of trained models, in one figure.

    Raises:
        UsageError: a model has no embedding of the target.
        MissingInputError, RecipeError, DataError, MissingExtraError, ReadWriteError: as reading and drawing.
    """
    curves = []
    for each in names_or_paths:
        named = _read(each)
        norms = gradient_by_distance(
            named.model,
            src_vocab=named.src_vocab,
            tgt_vocab=named.tgt_vocab,
            length=min(MAX_LENGTH, named.max_length or MAX_LENGTH),
        )
        curves.append(GradientCurve(named.name, norms / max(float(norms.max()), TINY)))
    draw_gradients(curves, output)


def _read(name_or_path: str) -> _NamedModel:
    path = Path(name_or_path)
    if path.is_dir():
        loaded = read_model(path)
        sizes = loaded.tokenizers.src.vocab.size, loaded.tokenizers.tgt.vocab.size
        return _NamedModel(path.resolve().name, loaded.model, *sizes, loaded.metadata.model.max_target_length())
    recipe = load_recipe(name_or_path, allow_commands=True)
    seed_everything(recipe.training.seed)
    model = recipe.model.build(RECIPE_VOCAB, RECIPE_VOCAB).eval()
    return _NamedModel(recipe.name, model, RECIPE_VOCAB, RECIPE_VOCAB, recipe.model.max_target_length())


def gradient_by_distance(
    model: TranslationModel, *, src_vocab: int, tgt_vocab: int, length: int, seed: int = 1
) -> NDArray[np.floating[Any]]:
    """|dL_t / de_(t-k)| for k = 0 ... length - 1, [length]: the mean of the norms over random sentences.

    L_t is the cross-entropy of one token after `length` tokens, e_s the embedding of target token s. Bengio, Simard &
    Frasconi 1994 show that it vanishes or explodes exponentially in k for recurrent networks
    (https://doi.org/10.1109/72.279181); Hochreiter & Schmidhuber 1997 made the LSTM for it.

    Args:
        model: in eval mode.
        src_vocab: number of source tokens.
        tgt_vocab: number of target tokens.
        length: of the random targets; the source has one token.

    Raises:
        UsageError: the model does not look up the target's tokens in an embedding.
    """
    generator = torch.Generator().manual_seed(seed)
    source_ids = torch.randint(src_vocab, (NUM_SENTENCES, 1), generator=generator)
    ids = torch.randint(tgt_vocab, (NUM_SENTENCES, length), generator=generator)
    labels = torch.randint(tgt_vocab, (NUM_SENTENCES,), generator=generator)
    source = Source(source_ids, torch.ones_like(source_ids, dtype=torch.bool), torch.zeros_like(source_ids))
    pos = torch.arange(length).expand(NUM_SENTENCES, -1)
    target = Target(ids, torch.ones_like(ids, dtype=torch.bool), pos)
    embeddings: list[Tensor] = []

    def record(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if args and isinstance(args[0], Tensor) and torch.equal(args[0], ids):
            output.retain_grad()
            embeddings.append(output)

    hooks = [each.register_forward_hook(record) for each in model.modules() if isinstance(each, nn.Embedding)]
    try:
        hidden = model.decode_states(source, target)  # [B, T, D]
    finally:
        for hook in hooks:
            hook.remove()
    if not embeddings:
        raise UsageError("gradients: the model has no embedding of the target's tokens")
    loss = nn.functional.cross_entropy(model.output(hidden[:, -1]), labels, reduction="sum")
    loss.backward()  # type: ignore[no-untyped-call]
    gradient = embeddings[0].grad
    model.zero_grad(set_to_none=True)
    norms = torch.zeros(length) if gradient is None else gradient.float().norm(dim=-1).mean(0)  # [T]
    return norms.flip(0).numpy()
