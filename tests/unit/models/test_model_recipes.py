"""Variants of models in recipes: read, built and saved, or refused by key with the remedy."""

from dataclasses import replace
from pathlib import Path

import pytest

from mtkit.errors import RecipeError
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
  d_model: 16
  d_ff: 16
"""
BOTH = "training.objective={kind: joint_lm}"


@pytest.fixture
def basic(tmp_path: Path) -> Path:
    path = tmp_path / "basic.yaml"
    path.write_text(BASIC)
    return path


@pytest.mark.parametrize(
    "overrides",
    [
        ["model.residual={kind: deepnorm}"],
        ["model.residual={kind: sandwich, norm: {kind: rms}}"],
        ["model.feed_forward={kind: gated, activation: gelu}", "model.parallel_sublayers=true"],
        ["model.feed_forward={kind: moe, num_experts: 2, moe_every: 1, routing: top2, expert: {kind: gated}}"],
        ["model.encoder_sharing={kind: cycle, distinct: 2}", "model.layerdrop=0.1"],
        ["model.decoder_attention={kind: ssru}"],
        ["model.decoder_attention={kind: average, d_ff: 8}"],
        ["model={kind: decoder_only, d_model: 16, source_visibility: causal}", BOTH],
    ],
    ids=lambda overrides: overrides[0],
)
def test_a_variant_is_read_built_and_saved(basic: Path, overrides: list[str]) -> None:
    recipe = load_recipe(str(basic), overrides)
    recipe.model.build(20, 20)
    save_recipe(recipe, basic.parent / "saved.yaml")
    assert load_saved(basic.parent / "saved.yaml") == recipe


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.residual={kind: deepnorm}", "model.parallel_sublayers=true"], "residual.kind deepnorm is derived for"),
        (["model.decoder_sharing={kind: cycle, distinct: 9}"], "decoder_sharing.distinct: 9 layers are more than"),
        (["model.decoder_sharing={kind: sequence}"], "distinct: missing"),
        (["model.feed_forward={kind: moe, num_experts: 1}"], "num_experts"),
        (
            ["model={kind: decoder_only, decoder_positions: {kind: learned, max_length: 300}}"],
            "model.decoder_positions.max_length: there are 150 positions",
        ),
        ([BOTH], "needs model.kind decoder_only with source_visibility: causal"),
        (["model={kind: decoder_only}", BOTH], "needs model.kind decoder_only with source_visibility: causal"),
        (
            ["model={kind: decoder_only, source_visibility: causal, tied_embeddings: target}", BOTH],
            "joint_lm needs model.tied_embeddings: all",
        ),
    ],
)
def test_incompatible_keys_are_refused(basic: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(basic), overrides)
    assert message in str(caught.value)


def test_the_built_in_decoder_only_recipe_has_the_settings_of_the_transformer() -> None:
    ours, theirs = load_recipe("multi30k-decoder-only"), load_recipe("multi30k-transformer-pre-norm")
    updates = theirs.training.max_updates // 2  # an update takes about twice the time
    training = replace(theirs.training, max_updates=updates)
    assert (ours.corpus, ours.training, ours.search) == (theirs.corpus, training, theirs.search)
    assert ours.model.decoder_layers == theirs.model.encoder_layers + theirs.model.decoder_layers
