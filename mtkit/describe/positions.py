"""What a model's position schemes say: an encoding of each position, or what they add to the scores by distance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

from mtkit.errors import UsageError
from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import Position
from mtkit.model_folder.folder import read_model
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.plot.positions import ByDistance, Encoding, Panel, draw_positions
from mtkit.recipe.recipe import load_recipe
from mtkit.training.seeding import seed_everything

REACH = 64  # positions of an encoding, and tokens of distance to either side
CONTENTS = 256  # random queries that scores are a mean over
Blocks = TransformerConfig | DecoderOnlyConfig


def plot_positions(name_or_path: str, output: Path) -> None:
    """Draw the position schemes of a recipe, with first weights, or of a trained model; `output` is the PNG to write.

    Raises:
        UsageError: the model has no position scheme.
        MissingInputError, RecipeError, DataError, MissingExtraError, ReadWriteError: as reading and drawing.
    """
    path = Path(name_or_path)
    found = _of_model(path) if path.is_dir() else _of_recipe(name_or_path)
    panels = [panel for title, position, config, causal in found for panel in _panels(title, position, config, causal)]
    if not panels:
        raise UsageError(f"{name_or_path}: there are no position encodings to draw")
    draw_positions(panels, output)


Found = Iterator[tuple[str, Position, Blocks, bool]]  # title, scheme, its model, whether only what came before is seen


def _of_recipe(name_or_path: str) -> Found:
    recipe = load_recipe(name_or_path)
    config = recipe.model
    seed_everything(recipe.training.seed)
    if isinstance(config, TransformerConfig):
        for causal, side, scheme in (
            (False, "encoder", config.encoder_positions),
            (True, "decoder", config.decoder_positions),
        ):
            positions = config.positions(scheme, layers=1, causal=causal)
            for each in (positions.embedding, positions.layers[0]):
                yield f"{side}: {scheme.kind}", each, config, causal
    elif isinstance(config, DecoderOnlyConfig):
        positions = config.positions(config.decoder_positions, layers=1, causal=True)
        for each in (positions.embedding, positions.layers[0]):
            yield f"decoder: {config.decoder_positions.kind}", each, config, True


def _of_model(path: Path) -> Found:
    loaded = read_model(path)
    config = loaded.description.model
    if isinstance(config, TransformerConfig):
        sides = {"encoder": config.encoder_positions.kind, "decoder": config.decoder_positions.kind}
        parts = {"encoder": ("src_embedding", "encoder.0"), "decoder": ("tgt_embedding", "decoder.0")}
    elif isinstance(config, DecoderOnlyConfig):
        sides, parts = {"decoder": config.decoder_positions.kind}, {"decoder": ("tgt_embedding", "layers.0")}
    else:
        return
    for side, kind in sides.items():
        for part in parts[side]:
            title = f"{side}: {kind}" + (", layer 1" if part.endswith(".0") else "")
            position = _first(loaded.model.get_submodule(part))
            if position is not None:
                yield title, position, config, side == "decoder"


def _first(part: nn.Module) -> Position | None:
    """The outermost scheme that does something."""
    return next((each for each in part.modules() if isinstance(each, Position) and type(each) is not Position), None)


@torch.no_grad()
def _panels(title: str, position: Position, config: Blocks, causal: bool) -> Iterator[Panel]:
    if type(position).embed is not Position.embed:
        pos = torch.arange(REACH).unsqueeze(0)  # [1, P]
        yield Encoding(title, position.embed(torch.zeros(1, REACH, config.d_model), pos)[0].numpy())
    elif type(position) is not Position:
        yield by_distance(title, position, config.heads, causal=causal)


@torch.no_grad()
def by_distance(title: str, position: Position, heads: Heads, *, causal: bool) -> ByDistance:
    """What a scheme adds to the score of a query and a key of the same content, by how far apart they stand.

    Contents are drawn from N(0, 1), the same ones for all heads; mean and standard deviation are over them.
    """
    away = torch.arange(0 if causal else -REACH, REACH + 1)  # [S]
    generator = torch.Generator().manual_seed(1)
    content = torch.randn(CONTENTS, 1, 1, heads.head_dim, generator=generator)
    q = content.expand(-1, heads.num_heads, -1, -1)  # [C, H, 1, K]
    k = content.expand(-1, heads.num_kv_heads, away.numel(), -1)  # [C, G, S, K]
    q_pos = torch.full((CONTENTS, 1), REACH)
    k_pos = (REACH - away).expand(CONTENTS, -1)  # [C, S]
    turned_q, turned_k = position.rotate(q, q_pos), position.rotate(k, k_pos)
    repeated = turned_k.repeat_interleave(heads.num_heads // heads.num_kv_heads, 1)  # [C, H, S, K]
    plain = content.square().sum(-1, keepdim=True)  # [C, 1, 1, 1]
    added = position.scale(heads.head_dim) * (turned_q @ repeated.mT - plain)  # [C, H, 1, S]
    bias = position.bias(turned_q, turned_k, q_pos, k_pos)
    if bias is not None:
        added = added + bias
    added = added.squeeze(2)  # [C, H, S]
    return ByDistance(title, away.numpy(), added.mean(0).numpy(), added.std(0).numpy())
