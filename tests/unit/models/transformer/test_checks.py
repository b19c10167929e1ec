"""Compatibility of attention, positions and heads: refused by key with the remedy, by capabilities instead of names."""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from mtkit.config import config
from mtkit.errors import RecipeError
from mtkit.layers.config import AttentionConfigBase, FullAttentionConfig, PositionConfigBase
from mtkit.layers.sizes import Heads
from mtkit.models.transformer.checks import StackChoice
from mtkit.pipeline.run_folder import save_recipe
from mtkit.recipe.recipe import load_recipe, load_saved

BASIC = """\
name: basic
corpus:
  src_lang: en
  tgt_lang: de
  train: [{src: a.en, tgt: a.de}]
  test: {t: {src: t.en, tgt: t.de}}
model:
  kind: transformer
"""


@pytest.fixture
def basic(tmp_path: Path) -> Path:
    path = tmp_path / "basic.yaml"
    path.write_text(BASIC)
    return path


REFUSED = [
    ("decoder_attention={kind: linformer}", "decoder_attention.kind: linformer attends to following tokens"),
    ("decoder_attention={kind: longformer}", "decoder_attention.kind: longformer attends to following tokens"),
    ("decoder_attention={kind: lsh}", "decoder_attention.kind: lsh attends to following tokens"),
    ("encoder_attention={kind: lsh} num_kv_heads=2", "encoder_attention.kind: lsh attention has no keys of its own"),
    ("encoder_attention={kind: performer} encoder_positions={kind: alibi}", "encoder_positions.kind: alibi changes"),
    ("encoder_attention={kind: linformer} encoder_positions={kind: t5}", "encoder_positions.kind: t5 changes"),
    ("encoder_positions={kind: rope} head_dim=7", "encoder_positions.kind: rope rotates pairs of numbers"),
    ("num_heads=7", "num_heads: 7 does not divide d_model 256; change one or set head_dim"),
    ("num_kv_heads=3", "num_kv_heads: 3 does not divide num_heads 4"),
    ("encoder_attention={kind: window} encoder_positions={kind: none}", "encoder_positions.kind: without positions"),
    ("decoder_positions={kind: learned, max_length: 100}", "decoder_positions.max_length: there are 100"),
    ("encoder_attention={kind: linformer, max_length: 256}", "encoder_attention.max_length: there are 256"),
    ("encoder_positions={kind: t5, num_buckets: 6}", "encoder_positions.num_buckets: 6: must be a multiple of 4"),
    ("encoder_attention={kind: widow}", "encoder_attention.kind: no such kind: 'widow'; did you mean window?"),
]


@pytest.mark.parametrize(("overrides", "message"), REFUSED, ids=lambda text: text[:30])
def test_incompatible_kinds_are_refused_by_key(basic, overrides, message):
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(basic), [f"model.{override}" for override in split(overrides)])
    assert f"model.{message}" in str(caught.value)
    assert str(caught.value).count("\n") == 0


def split(overrides: str) -> list[str]:
    """Split at spaces outside of braces."""
    parts: list[str] = []
    for word in overrides.split(" "):
        if parts and parts[-1].count("{") > parts[-1].count("}"):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    return parts


@config
class ToyAttentionConfig(AttentionConfigBase):
    """A new kind of attention, for encoders, without scores and up to 7 tokens."""

    kind: Literal["toy"] = "toy"
    is_causal_capable: ClassVar[bool] = False
    computes_scores: ClassVar[bool] = False
    needs_positions: ClassVar[bool] = True

    @property
    def length_limit(self) -> int:
        return 7


@config
class ToyBiasConfig(PositionConfigBase):
    """A new position encoding that biases scores."""

    kind: Literal["toy_bias"] = "toy_bias"
    acts_in_attention: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = True
    needs_even_head_dim: ClassVar[bool] = True


@config
class ToyPositionConfig(PositionConfigBase):
    """A new position encoding of the embeddings."""

    kind: Literal["toy_position"] = "toy_position"


def test_new_kinds_are_checked_by_their_capabilities():
    choice = StackChoice(
        side="encoder",
        attention=ToyAttentionConfig(),
        positions=ToyPositionConfig(),
        d_model=10,
        heads=Heads(2, 2, 5),
    )
    choice.check()
    assert choice.length_limits() == {"encoder_attention.max_length": 7}
    with pytest.raises(ValueError, match=r"toy attends to following tokens .* use full, window, strided, binary_p"):
        replace(choice, side="decoder").check()
    with pytest.raises(ValueError, match=r"toy_bias changes the score .* use sinusoidal, learned or rope, or"):
        replace(choice, positions=ToyBiasConfig()).check()
    with pytest.raises(ValueError, match=r"toy_bias rotates pairs of numbers, but the heads have width 5"):
        replace(choice, attention=FullAttentionConfig(), positions=ToyBiasConfig()).check()


def test_interpolated_positions_are_long_enough(basic):
    short = "model.encoder_positions={kind: learned, max_length: 200"
    with pytest.raises(RecipeError, match="max_length"):
        load_recipe(str(basic), [short + "}"])
    recipe = load_recipe(str(basic), [short + ", interpolation_factor: 2.0}"])
    assert recipe.model.encoder_positions.interpolation_factor == 2.0


def test_every_kind_survives_saving(basic, tmp_path):
    overrides = [
        "model.encoder_attention={kind: longformer, width: 8, global_stride: 16}",
        "model.decoder_attention={kind: window, width: 8}",
        "model.encoder_positions={kind: rope, scaling: {kind: ntk, factor: 4.0}}",
        "model.decoder_positions={kind: deberta}",
        "model.qk_norm=rms",
    ]
    recipe = load_recipe(str(basic), overrides)
    save_recipe(recipe, tmp_path / "saved.yaml")
    assert load_saved(tmp_path / "saved.yaml") == recipe
