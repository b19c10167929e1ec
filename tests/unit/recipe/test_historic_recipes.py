"""Recipes named after a paper: what the paper had not is off, and settings of another loss are converted alike."""

from __future__ import annotations

import pytest

from mtkit.recipe.paths import builtin_files
from mtkit.recipe.recipe import load_recipe
from mtkit.training.optimisers.config import AdadeltaConfig, SGDConfig
from mtkit.training.optimisers.schedule import InverseSqrtConfig

RECURRENT = ["wmt14-lstm", "wmt14-rnnsearch"]
TRANSFORMERS = [
    "wmt14-transformer-base",
    "wmt14-transformer-big",
    "wmt14-transformer-en-fr",
    "multi30k-transformer-2017",
    "iwslt14-de-en",
]
SMALL = ["multi30k-lstm", "multi30k-bahdanau", "multi30k-transformer-2017"]  # for 29,000 captions


@pytest.mark.parametrize("name", [*RECURRENT, *TRANSFORMERS])
def test_later_defaults_are_off(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.training.ema is None
    assert recipe.training.on_divergence is None
    assert not recipe.search.retry_loops
    assert not recipe.search.split_long_lines
    assert recipe.defaults == "fixed"


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_models_have_no_smoothing_dropout_ties_averages_or_length_penalty(name: str) -> None:
    recipe = load_recipe(name)
    assert (recipe.training.label_smoothing, recipe.model.dropout, recipe.search.length_penalty) == (0, 0, 0)
    assert recipe.model.tied_embeddings == "none"
    assert recipe.training.checkpoint_average is None


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_are_post_norm_with_the_papers_schedule_and_are_not_clipped(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.model.residual.kind == "post_norm"
    assert isinstance(recipe.training.schedule, InverseSqrtConfig)
    assert recipe.training.clip_norm is None


@pytest.mark.parametrize(("name", "count", "seconds"), [("base", 5, 0.4), ("big", 20, 1.0)])
def test_averaged_checkpoints_are_ten_minutes_apart(name: str, count: int, seconds: float) -> None:
    """Vaswani et al. 2017, sec. 5.2 (seconds of an update) and 6.1."""
    training = load_recipe(f"wmt14-transformer-{name}").training
    assert training.checkpoint_average is not None
    assert (training.checkpoint_average.count, training.checkpoint_average.which) == (count, "last")
    assert training.checkpoint_every * seconds == pytest.approx(600)
    assert training.keep_last >= count


def test_rates_and_norms_are_those_of_losses_summed_over_the_tokens_of_a_sentence() -> None:
    """A loss divided by n tokens has 1/n of the gradient: the norm is divided by n, and the rate multiplied by it."""
    lstm = load_recipe("wmt14-lstm").training
    assert isinstance(lstm.optimiser, SGDConfig)
    assert lstm.clip_norm == pytest.approx(5 / (lstm.optimiser.learning_rate / 0.7), rel=0.03)
    rnnsearch = load_recipe("wmt14-rnnsearch").training
    assert isinstance(rnnsearch.optimiser, AdadeltaConfig)
    assert rnnsearch.clip_norm == pytest.approx(1 / rnnsearch.optimiser.learning_rate)
    assert rnnsearch.optimiser.eps == pytest.approx(1e-6 / rnnsearch.optimiser.learning_rate**2)


@pytest.mark.parametrize("name", SMALL)
def test_heads_of_small_recipes_say_what_differs_from_the_paper(name: str) -> None:
    """Each word stands for a setting that the recipe has and the paper has not."""
    recipe = load_recipe(name)
    text = builtin_files("recipe")[name].read_text(encoding="utf-8").partition("\nname:")[0]
    head = " ".join(line.removeprefix("# ") for line in text.split("\n"))
    expected = {
        "8,000 subwords": recipe.tokenizer.vocab_size == 8000 and recipe.tokenizer.model_type == "bpe",
        "4,096 tokens": recipe.training.batch_tokens == 4096,
        "clipped at 1": recipe.training.clip_norm == 1.0,
        "moving average": recipe.training.ema is not None,
        "target embeddings are tied": recipe.model.tied_embeddings == "target",
        "label smoothing": recipe.training.label_smoothing > 0,
        "beam 5": recipe.search.beam_size == 5,
        "mean log-probability": recipe.search.length_penalty == 1.0,
        "ran into a loop": recipe.search.retry_loops,
        "nitial weights": "lstm" not in name,
    }
    assert [words for words, differs in expected.items() if differs and words not in head] == []
    assert "translates English to French" in head or "transformer" in name


def test_the_small_bahdanau_model_has_the_papers_cells_and_start_state() -> None:
    small, large = load_recipe("multi30k-bahdanau").model, load_recipe("wmt14-rnnsearch").model
    for key in ("encoder_cell", "decoder_cell", "bridge_source", "attention"):
        assert getattr(small, key) == getattr(large, key)


def test_transformers_stop_at_the_papers_length() -> None:
    """Vaswani et al. 2017, sec. 6.1: the length of the source and 50 tokens."""
    for name in TRANSFORMERS[:4]:
        limit = load_recipe(name).search.max_length
        assert (limit.factor, limit.offset) == (1.0, 50)
