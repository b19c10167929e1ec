"""Choices of a short budget: no dropout in very few epochs, and attention that a lexicon guides."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mtkit.recipe.defaults import schedule
from mtkit.recipe.defaults.choose import choose
from mtkit.recipe.defaults.facts import BudgetLimits, CorpusStatistics, Facts, SideStatistics
from mtkit.recipe.recipe import read_recipe

DATA = Path(__file__).parents[4] / "data"
BATCH = "training.batch_tokens=512"


@pytest.fixture
def recipe_file(tmp_path: Path) -> str:
    for side in ("en", "de"):
        lines = (DATA / f"train.{side}").read_text().split("\n")[:3000]
        (tmp_path / f"t.{side}").write_text("".join(f"{line}\n" for line in lines))
    path = tmp_path / "mine.yaml"
    path.write_text("corpus: {src_lang: en, tgt_lang: de, train: [{src: t.en, tgt: t.de}]}\n")
    return str(path)


@pytest.mark.parametrize(
    ("updates", "hours", "objective", "dropout"),
    [
        (250, 0.5, "cross_entropy", 0.0),
        (250, 0.5, "r_drop", 0.1),  # it compares two dropout masks
        (250, 2.0, "cross_entropy", 0.1),  # no short budget
        (250, None, "cross_entropy", 0.1),
        (500, 0.5, "cross_entropy", 0.1),
        (1_400, 0.5, "cross_entropy", 0.1),
        (1_400, None, "cross_entropy", 0.1),
        (1_700, 0.5, "cross_entropy", 0.3),
        (20_000, 0.5, "cross_entropy", 0.3),
    ],
)
def test_very_few_epochs_of_a_short_budget_need_no_dropout(recipe_file, updates, hours, objective, dropout):
    keys = [f"training.max_updates={updates}", BATCH, f"training.objective={{kind: {objective}}}"]
    limits = BudgetLimits(hours=hours, words="a budget")
    recipe = choose(read_recipe(recipe_file, keys), limits)
    assert recipe.model.dropout == dropout


@pytest.mark.parametrize(
    ("keys", "objective"),
    [
        ([], "guided_alignment"),
        (["training.objective={kind: r_drop}"], "r_drop"),
        (["training.decoder_input={kind: word_dropout}"], "cross_entropy"),  # needs the true tokens
        (["model={kind: attention_rnn}"], "cross_entropy"),
        (["corpus.train=[{text: t.en}, {text: t.de}]", "corpus.noise={kind: bart}"], "cross_entropy"),
    ],
)
def test_a_short_budget_guides_the_attention_of_a_transformer(recipe_file, monkeypatch, keys, objective):
    monkeypatch.chdir(Path(recipe_file).parent)  # paths of overrides are relative to it
    recipe = choose(read_recipe(recipe_file, keys), BudgetLimits(hours=0.5, words="a budget"))
    assert recipe.chosen
    assert recipe.training.objective.kind == objective


@pytest.mark.parametrize(
    ("pairs", "hours", "objective"),
    [
        (5000, None, "guided_alignment"),
        (5000, 2.0, "guided_alignment"),
        (500_000, None, "cross_entropy"),
        (500_000, 2.0, "cross_entropy"),
        (500_000, 0.5, "guided_alignment"),
    ],
)
def test_little_text_or_little_time_guides_the_attention(pairs, hours, objective):
    side = SideStatistics(pairs, 60.0, 12.0, 10**6, Counter("ab"), is_unspaced=False)
    known = Facts(CorpusStatistics(pairs, side, side), False, True, BudgetLimits(hours=hours, words="a budget"))
    assert schedule.objective(known, {}).value == {"kind": objective}
