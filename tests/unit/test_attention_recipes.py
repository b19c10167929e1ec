"""What a recipe may not combine: refused when it is read, by key, with the remedy."""

from pathlib import Path

import pytest

from mtkit.errors import RecipeError
from mtkit.recipe.recipe import load_recipe, load_saved, save_recipe

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
    ("decoder_attention={kind: linformer}", "decoder_attention.kind: linformer looks at what comes later"),
    ("decoder_attention={kind: longformer}", "decoder_attention.kind: longformer looks at what comes later"),
    ("encoder_attention={kind: performer} encoder_positions={kind: alibi}", "encoder_positions.kind: alibi changes"),
    ("encoder_attention={kind: linformer} encoder_positions={kind: t5}", "encoder_positions.kind: t5 changes"),
    ("encoder_positions={kind: rope} head_dim=7", "encoder_positions.kind: rope turns pairs of numbers and the heads"),
    ("num_heads=7", "num_heads: 7 does not divide d_model 256; change one or set head_dim"),
    ("num_kv_heads=3", "num_kv_heads: 3 does not divide num_heads 4"),
    ("encoder_attention={kind: window} encoder_positions={kind: none}", "encoder_positions.kind: with none, window"),
    ("decoder_positions={kind: learned, max_length: 100}", "decoder_positions.max_length: there are 100"),
    ("encoder_attention={kind: linformer, max_length: 256}", "encoder_attention.max_length: there are 256"),
    ("encoder_positions={kind: t5, num_buckets: 6}", "encoder_positions.num_buckets: 6: must be a multiple of 4"),
    ("encoder_attention={kind: widow}", "encoder_attention.kind: no such kind: 'widow'; did you mean window?"),
]


@pytest.mark.parametrize(("overrides", "message"), REFUSED, ids=lambda text: text[:30])
def test_refused_with_its_key(basic, overrides, message):
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(basic), [f"model.{override}" for override in split(overrides)])
    assert f"model.{message}" in str(caught.value)
    assert str(caught.value).count("\n") == 0


def split(overrides: str) -> list[str]:
    """Overrides, which have spaces of their own in braces."""
    found: list[str] = []
    for word in overrides.split(" "):
        if found and found[-1].count("{") > found[-1].count("}"):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def test_a_table_that_reaches_by_stretching_is_taken(basic):
    short = "model.encoder_positions={kind: learned, max_length: 200"
    with pytest.raises(RecipeError, match="max_length"):
        load_recipe(str(basic), [short + "}"])
    recipe = load_recipe(str(basic), [short + ", stretch: 2.0}"])
    assert recipe.model.encoder_positions.stretch == 2.0


def test_every_kind_survives_saving(basic, tmp_path):
    overrides = [
        "model.encoder_attention={kind: longformer, width: 8, every: 16}",
        "model.decoder_attention={kind: window, width: 8}",
        "model.encoder_positions={kind: rope, scaling: {kind: ntk, factor: 4.0}}",
        "model.decoder_positions={kind: deberta}",
        "model.query_key_norm=rms",
    ]
    recipe = load_recipe(str(basic), overrides)
    save_recipe(recipe, tmp_path / "saved.yaml")
    assert load_saved(tmp_path / "saved.yaml") == recipe
