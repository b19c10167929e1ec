"""Plots of a model's position encodings: an encoding per position, or the contribution to scores by distance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from mtkit.errors import UsageError
from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import Position
from mtkit.model_folder.folder import read_model
from mtkit.models.capabilities import PositionStack
from mtkit.models.decoder_only.model import DecoderOnly
from mtkit.models.transformer.model import Transformer
from mtkit.plot.positions import EncodingPanel, Panel, ScorePanel, draw_positions
from mtkit.recipe.recipe import load_recipe
from mtkit.training.seeding import seed_everything

MAX_DISTANCE = 64  # tokens in either direction; also the number of positions of an encoding
NUM_RANDOM_VECTORS = 256  # random queries over which the scores are averaged

# by side: the submodule that may add an encoding to the embeddings, and the one whose attention may use positions
_MODULES: dict[type[nn.Module], dict[str, tuple[str, str]]] = {
    Transformer: {"encoder": ("src_embedding", "encoder.0"), "decoder": ("tgt_embedding", "decoder.0")},
    DecoderOnly: {"decoder": ("tgt_embedding", "layers.0")},
}
PositionSource = Iterator[tuple[str, Position, PositionStack]]  # title of the panel, encoding, the stack it belongs to


def plot_positions(name_or_path: str, output: Path) -> None:
    """Draw the position encodings of a recipe, with initial weights, or of a trained model.

    Raises:
        UsageError: the model has no position encoding.
        MissingInputError, RecipeError, DataError, MissingExtraError, ReadWriteError: as reading and drawing.
    """
    path = Path(name_or_path)
    source = _positions_of_model(path) if path.is_dir() else _positions_of_recipe(name_or_path)
    panels = [panel for title, position, stack in source for panel in _panels(title, position, stack)]
    if not panels:
        raise UsageError(f"{name_or_path}: the model has no position encodings to draw")
    draw_positions(_merge_equal(panels), output)


def _merge_equal(panels: Sequence[Panel]) -> list[Panel]:
    """The panels; equal encodings, as those of encoder and decoder often are, become one."""
    merged: dict[bytes, Panel] = {}
    for panel in panels:
        key = panel.matrix.tobytes() if isinstance(panel, EncodingPanel) else panel.title.encode()
        before = merged.get(key)
        title = panel.title if before is None else f"{before.title.partition(':')[0]} and {panel.title}"
        merged[key] = replace(panel, title=title)
    return list(merged.values())


def _positions_of_recipe(name_or_path: str) -> PositionSource:
    recipe = load_recipe(name_or_path, allow_commands=True)
    seed_everything(recipe.training.seed)
    for stack in recipe.model.position_stacks():
        positions = stack.positions.build(stack.d_model, stack.heads, layers=1, causal=stack.is_causal)
        for position in (positions.embedding, positions.layers[0]):
            yield f"{stack.side}: {stack.positions.kind}", position, stack


def _positions_of_model(path: Path) -> PositionSource:
    loaded = read_model(path)
    for stack in loaded.metadata.model.position_stacks():
        title = f"{stack.side}: {stack.positions.kind}"
        modules = _MODULES.get(type(loaded.model), {}).get(stack.side, ())
        for module_title, module_path in zip((title, f"{title}, layer 1"), modules, strict=False):
            position = _find_position(loaded.model.get_submodule(module_path))
            if position is not None:
                yield module_title, position, stack


def _find_position(module: nn.Module) -> Position | None:
    """The outermost position encoding in a module; the base class is a placeholder that does nothing."""
    return next((each for each in module.modules() if isinstance(each, Position) and type(each) is not Position), None)


@torch.no_grad()
def _panels(title: str, position: Position, stack: PositionStack) -> Iterator[Panel]:
    if type(position).embed is not Position.embed:
        pos = torch.arange(MAX_DISTANCE).unsqueeze(0)  # [1, T]
        yield EncodingPanel(title, position.embed(torch.zeros(1, MAX_DISTANCE, stack.d_model), pos)[0].numpy())
    elif type(position) is not Position:
        yield score_by_distance(title, position, stack.heads, causal=stack.is_causal)


@torch.no_grad()
def score_by_distance(title: str, position: Position, heads: Heads, *, causal: bool) -> ScorePanel:
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
    return ScorePanel(title, distance.numpy(), contribution.mean(0).numpy(), contribution.std(0).numpy())
