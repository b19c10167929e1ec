"""Plots of models: position encodings, and the gradient over distance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.errors import UsageError
from mtkit.layers.positions import Position
from mtkit.layers.sizes import Heads
from mtkit.model_folder.folder import read_model
from mtkit.models.capabilities import PositionStack
from mtkit.models.decoder_only.model import DecoderOnly
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.model import Transformer
from mtkit.plot.figure import EncodingPanel, draw
from mtkit.plot.page import Curve, Picture
from mtkit.recipe.recipe import load_recipe
from mtkit.training.numerics import seed_everything

NUM_SENTENCES = 16  # random sentences over which norms are averaged
MAX_LENGTH = 64  # tokens of the random targets
TINY = 1e-30  # of a gradient that is 0 everywhere
LOWEST = 1e-12  # smaller gradients are rounding errors
Panel = Picture | EncodingPanel
RECIPE_VOCAB = 1000  # tokens of an untrained model; embeddings of rare tokens do not matter here


def plot_gradients(names_or_paths: Sequence[str], output: Path) -> None:
    """Draw the gradient over distance of recipes, with initial weights, and of trained models, in one figure.

    Raises:
        UsageError: a model has no embedding of the target.
        MissingInputError, RecipeError, DataError, MissingExtraError, ReadWriteError: as reading and drawing.
    """
    curves = []
    for each in names_or_paths:
        path = Path(each)
        model: TranslationModel
        if path.is_dir():
            loaded = read_model(path)
            name, model, config = path.resolve().name, loaded.model, loaded.metadata.model
            src_vocab, tgt_vocab = loaded.tokenizers.src.vocab.size, loaded.tokenizers.tgt.vocab.size
        else:
            recipe = load_recipe(each, allow_commands=True)
            name, config = recipe.name, recipe.model
            src_vocab = tgt_vocab = RECIPE_VOCAB
            seed_everything(recipe.training.seed)
            model = config.build(src_vocab, tgt_vocab).eval()
        length = min(MAX_LENGTH, config.max_target_length() or MAX_LENGTH)
        norms = gradient_by_distance(model, src_vocab=src_vocab, tgt_vocab=tgt_vocab, length=length)
        decades = np.log10(np.maximum(norms / max(float(norms.max()), TINY), LOWEST))
        curves.append(Curve(name, [*enumerate(decades.tolist())]))
    title, y = (
        "How far back the loss of one token reaches",
        "gradient of a token's embedding\n(log10 of the norm, largest = 0)",
    )
    draw([Picture(title, curves, "distance from the loss in tokens", y)], output)


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


MAX_DISTANCE = 64  # tokens in either direction; also the number of positions of an encoding
MIN_VISIBLE = 1e-4  # share of the range of scores; smaller deviations or differences of heads are rounding errors
NUM_RANDOM_VECTORS = 256  # random queries over which the scores are averaged

# by side: the submodule that may add an encoding to the embeddings, and the one whose attention may use positions
_MODULES: dict[type[nn.Module], dict[str, tuple[str, str]]] = {
    Transformer: {"encoder": ("src_embedding", "encoder.0"), "decoder": ("tgt_embedding", "decoder.0")},
    DecoderOnly: {"decoder": ("tgt_embedding", "layers.0")},
}


def plot_positions(name_or_path: str, output: Path) -> None:
    """Draw the position encodings of a recipe, with initial weights, or of a trained model.

    Raises:
        UsageError: the model has no position encoding.
        MissingInputError, RecipeError, DataError, MissingExtraError, ReadWriteError: as reading and drawing.
    """
    panels = [panel for row in _positions(name_or_path) for panel in _panels(*row)]
    if not panels:
        raise UsageError(f"{name_or_path}: the model has no position encodings to draw")
    draw(_merge_equal(panels), output)


def _merge_equal(panels: Sequence[Panel]) -> list[Panel]:
    """The panels; equal encodings, as those of encoder and decoder often are, become one."""
    merged: dict[bytes, Panel] = {}
    for panel in panels:
        key = panel.matrix.tobytes() if isinstance(panel, EncodingPanel) else panel.title.encode()
        before = merged.get(key)
        title = panel.title if before is None else f"{before.title.partition(':')[0]} and {panel.title}"
        merged[key] = replace(panel, title=title)
    return list(merged.values())


def _positions(name_or_path: str) -> Iterator[tuple[str, Position, PositionStack]]:
    """Position encodings of a recipe or a model, each with the title of its panel and the stack it belongs to."""
    path = Path(name_or_path)
    if not path.is_dir():
        recipe = load_recipe(name_or_path, allow_commands=True)
        seed_everything(recipe.training.seed)
        for stack in recipe.model.position_stacks():
            positions = stack.positions.build(stack.d_model, stack.heads, layers=1, causal=stack.is_causal)
            for position in (positions.embedding, positions.layers[0]):
                yield f"{stack.side}: {stack.positions.kind}", position, stack
        return
    loaded = read_model(path)
    for stack in loaded.metadata.model.position_stacks():
        title = f"{stack.side}: {stack.positions.kind}"
        paths = _MODULES.get(type(loaded.model), {}).get(stack.side, ())
        for module_title, module_path in zip((title, f"{title}, layer 1"), paths, strict=False):
            # the outermost encoding counts; the base class is a placeholder that does nothing
            modules = loaded.model.get_submodule(module_path).modules()
            encodings = (each for each in modules if isinstance(each, Position) and type(each) is not Position)
            if (encoding := next(encodings, None)) is not None:
                yield module_title, encoding, stack


@torch.no_grad()
def _panels(title: str, position: Position, stack: PositionStack) -> Iterator[Panel]:
    if type(position).embed is not Position.embed:
        pos = torch.arange(MAX_DISTANCE).unsqueeze(0)  # [1, T]
        yield EncodingPanel(title, position.embed(torch.zeros(1, MAX_DISTANCE, stack.d_model), pos)[0].numpy())
    elif type(position) is not Position:
        yield picture_of_scores(title, score_by_distance(position, stack.heads, causal=stack.is_causal))


def picture_of_scores(title: str, scores: DistanceScores) -> Picture:
    """A curve for each head, or one if they are equal; the band is the mean ± the standard deviation."""
    visible = MIN_VISIBLE * max(float(np.abs(scores.mean).max()), float(scores.std.max()), 1e-12)
    are_equal = np.ptp(scores.mean, axis=0).max() < visible and np.ptp(scores.std, axis=0).max() < visible
    shown = []
    for head, (mean, std) in enumerate(zip(scores.mean, scores.std, strict=True), start=1):
        points = [*zip(scores.distance.tolist(), mean.tolist(), strict=True)]
        band = zip(scores.distance.tolist(), (mean - std).tolist(), (mean + std).tolist(), strict=True)
        shown.append(Curve(f"head {head}", points, [*band] if std.max() > visible else []))
    x = "query position - key position (positive: the key precedes the query)"
    deviation = ", mean ± standard deviation" if scores.std.max() > visible else ""
    return Picture(
        title, [replace(shown[0], name="all heads")] if are_equal else shown, x, f"contribution to the score{deviation}"
    )


class DistanceScores(NamedTuple):
    """Contribution of a position encoding to the attention scores of each head, by distance."""

    distance: NDArray[np.integer[Any]]  # [N], query position minus key position
    mean: NDArray[np.floating[Any]]  # [H, N], over random queries and keys
    std: NDArray[np.floating[Any]]  # [H, N], the standard deviation over them


@torch.no_grad()
def score_by_distance(position: Position, heads: Heads, *, causal: bool) -> DistanceScores:
    """Contribution of a position encoding to the attention score of a query and an equal key, by their distance.

    The contribution is the score with the encoding minus q·k / sqrt(K) without it, for q = k drawn from N(0, I), the
    same vectors for all heads. Mean and standard deviation are over these vectors.

    Args:
        heads: number and width of the heads.
        causal: only keys at or before the query, as in a decoder.
    """
    distance = torch.arange(0 if causal else -MAX_DISTANCE, MAX_DISTANCE + 1)  # [S], query minus key position
    generator = torch.Generator().manual_seed(1)
    content = torch.randn(NUM_RANDOM_VECTORS, 1, 1, heads.head_dim, generator=generator)  # [C, 1, 1, K]
    q = content.expand(-1, heads.num_heads, -1, -1)  # [C, H, 1, K]
    k = content.expand(-1, heads.num_kv_heads, distance.numel(), -1)  # [C, G, S, K]
    q_pos = torch.full((NUM_RANDOM_VECTORS, 1), MAX_DISTANCE)  # [C, 1]
    k_pos = (MAX_DISTANCE - distance).expand(NUM_RANDOM_VECTORS, -1)  # [C, S]
    rotated_q, rotated_k = position.rotate(q, q_pos), position.rotate(k, k_pos)
    repeated_k = rotated_k.repeat_interleave(heads.num_heads // heads.num_kv_heads, 1)  # [C, H, S, K]
    content_score = content.square().sum(-1, keepdim=True)  # [C, 1, 1, 1]
    contribution = position.scale(heads.head_dim) * (rotated_q @ repeated_k.mT - content_score)  # [C, H, 1, S]
    bias = position.bias(rotated_q, rotated_k, q_pos, k_pos)
    if bias is not None:
        contribution = contribution + bias
    contribution = contribution.squeeze(2)  # [C, H, S]
    return DistanceScores(distance.numpy(), contribution.mean(0).numpy(), contribution.std(0).numpy())
