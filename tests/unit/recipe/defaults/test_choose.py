"""Choices for omitted keys: they follow from the text, stated keys win, a started training keeps them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from mtkit.recipe.defaults import model_size, schedule
from mtkit.recipe.defaults.choose import RULES, choose, keep_choices
from mtkit.recipe.defaults.facts import (
    BudgetLimits,
    Choice,
    CorpusStatistics,
    Facts,
    SideStatistics,
    corpus_statistics,
    side_statistics,
)
from mtkit.recipe.paths import builtin_files
from mtkit.recipe.recipe import load_recipe, read_recipe
from mtkit.recipe.sections import Recipe, describe, describe_choices
from mtkit.recipe.type_hints import has_path
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from tests.toy.sampling import sampled

ROOT = Path(__file__).parents[4]
BATCH = "training.batch_tokens=512"


def facts(pairs: int, *, words: float = 12, gpu: bool = False, distinct: int = 10**6, **limits) -> Facts:
    side = SideStatistics(pairs, words * 6, words, distinct, Counter("aabc"), is_unspaced=False)
    return Facts(CorpusStatistics(pairs, side, side), gpu, True, BudgetLimits(**limits))


def recipe_file(folder: Path, src: list[str], tgt: list[str], more: str = "") -> Path:
    (folder / "t.en").write_text("".join(f"{line}\n" for line in src))
    (folder / "t.de").write_text("".join(f"{line}\n" for line in tgt))
    path = folder / "mine.yaml"
    path.write_text(f"corpus: {{src_lang: en, tgt_lang: de, train: [{{src: t.en, tgt: t.de}}]}}\n{more}")
    return path


@pytest.fixture(scope="module")
def corpus() -> tuple[list[str], list[str]]:
    return tuple((ROOT / "data" / f"train.{side}").read_text().split("\n")[:3000] for side in ("en", "de"))  # type: ignore[return-value]


def test_files_and_languages_are_enough(tmp_path, corpus):
    recipe = load_recipe(str(recipe_file(tmp_path, *corpus)))
    assert recipe.name == "mine"
    of_validation = {"training.validate_every", "training.validation.sentences"}  # without a validation set
    assert set(recipe.chosen) == {rule.key for rule in RULES} - of_validation
    assert "batch_tokens 2,048: " in "\n".join(describe_choices(recipe))
    assert recipe.training.patience is None  # no validation set
    assert all(has_path(Recipe, rule.key) for rule in RULES)


def test_the_chosen_vocabulary_can_be_trained(tmp_path, corpus):
    recipe = load_recipe(str(recipe_file(tmp_path, *corpus)))
    for texts in (corpus, (["a b", "c d e"] * 20, ["x", "y z"] * 20)):
        recipe = load_recipe(str(recipe_file(tmp_path, *texts)))
        train_pair([tmp_path / "t.en"], [tmp_path / "t.de"], tmp_path, recipe.tokenizer)
        assert TokenizerPair.load(tmp_path).src.vocab.size == recipe.tokenizer.vocab_size


def test_stated_keys_are_kept_and_others_follow_them(tmp_path, corpus):
    more = "tokenizer: {vocab_size: 700}\nmodel: {d_model: 256, dropout: 0.2}\n"
    recipe = load_recipe(str(recipe_file(tmp_path, *corpus, more)), ["training.max_updates=70", "training.ema=null"])
    assert (recipe.tokenizer.vocab_size, recipe.model.d_model, recipe.model.dropout) == (700, 256, 0.2)
    assert not recipe.chosen.keys() & {"tokenizer.vocab_size", "model.d_model", "training.max_updates"}
    assert recipe.training.optimiser.learning_rate == pytest.approx(2e-3)  # of width 256
    assert recipe.training.schedule.warmup == 7
    assert recipe.training.ema is None


@pytest.mark.parametrize("more", ["defaults: fixed\n", "training: {init_from: model}\n"])
def test_fixed_defaults_and_fine_tuning_choose_nothing(tmp_path, corpus, more):
    recipe = load_recipe(str(recipe_file(tmp_path, *corpus, more)))
    assert recipe.chosen == {}
    assert (recipe.tokenizer.vocab_size, recipe.model.d_model, recipe.training.max_updates) == (8000, 256, 4000)


def test_builtin_recipes_choose_nothing():
    assert [name for name in builtin_files("recipe") if load_recipe(name).chosen] == []


def test_other_models_keep_their_own_defaults(tmp_path, corpus):
    recipe = load_recipe(str(recipe_file(tmp_path, *corpus, "model: {kind: attention_rnn}\n")))
    fixed = load_recipe(str(recipe_file(tmp_path, *corpus, "defaults: fixed\nmodel: {kind: attention_rnn}\n")))
    assert recipe.model == fixed.model
    assert recipe.training.optimiser == fixed.training.optimiser
    assert recipe.tokenizer.vocab_size != fixed.tokenizer.vocab_size


def test_an_existing_tokenizer_keeps_its_vocabulary(tmp_path, corpus):
    recipe = load_recipe(str(recipe_file(tmp_path, *corpus, "tokenizer: {model: x.model}\n")))
    assert not [key for key in recipe.chosen if key.startswith("tokenizer.")]
    assert "model.d_model" in recipe.chosen


def test_decided_choices_are_kept_when_the_text_grows(tmp_path, corpus):
    src, tgt = corpus
    before = load_recipe(str(recipe_file(tmp_path, src[:1000], tgt[:1000])))
    grown = recipe_file(tmp_path, src, tgt)
    assert load_recipe(str(grown)).tokenizer != before.tokenizer
    assert keep_choices(read_recipe(str(grown)), before) == before


def test_vocabulary_fits_the_published_sizes():
    values = {"tokenizer.shared": True, "tokenizer.model_type": "bpe"}
    sizes = {pairs: model_size.vocab_size(facts(pairs), values).value for pairs in (4600, 29_000, 4_500_000)}
    assert sizes == {4600: 4000, 29_000: 10_000, 4_500_000: 32_000}


@pytest.mark.parametrize(
    ("pairs", "whole", "shallow"),
    [(100, 1000, 1000), (4600, 4000, 4000), (29_000, 10_000, 5000), (4_500_000, 32_000, 5000)],
)
def test_vocabulary_of_the_models_for_short_budgets_is_small(pairs, whole, shallow):
    values = {"tokenizer.shared": True, "tokenizer.model_type": "bpe"}
    corpus = facts(pairs, gpu=True)
    limited = [replace(corpus, limits=BudgetLimits(size=i, words="3m")) for i in range(len(model_size.SIZES))]
    choices = [model_size.vocab_size(each, values) for each in limited]
    assert [choice.value for choice in choices] == [shallow, shallow, *[whole] * (len(choices) - 2)]
    assert choices[0].reason == ("3m of training" if shallow < whole else f"{pairs:,} pairs")


def test_vocabulary_leaves_room_for_the_alphabet_of_two_scripts():
    kanji = Counter(map(chr, range(0x4E00, 0x4E00 + 2500)))
    side = SideStatistics(1000, 20, 1, 1000, kanji, is_unspaced=True)
    few = replace(facts(1000), corpus=CorpusStatistics(1000, facts(1000).corpus.src, side))
    assert not model_size.shared_vocabulary(few, {"model.tied_embeddings": "undecided"}).value
    assert model_size.shared_vocabulary(few, {"model.tied_embeddings": "all"}) == Choice(True, "tied_embeddings all")
    choice = model_size.vocab_size(few, {"tokenizer.shared": False, "tokenizer.model_type": "bpe"})
    assert choice.value >= 2 * 2500
    assert choice.reason == "2,500 different characters"


def test_size_grows_with_text_and_machine_and_shrinks_with_the_budget():
    widths = [model_size.d_model(facts(n, gpu=True), {}).value for n in (5000, 80_000, 10**6, 4 * 10**6, 40 * 10**6)]
    assert widths == sorted(widths)
    assert (widths[0], widths[-1]) == (128, 1024)
    assert model_size.d_model(facts(10**6), {}).value == 256  # on a CPU
    assert model_size.d_model(facts(10**6, gpu=True, size=0), {}).value == 128
    values = {"training.max_updates": 10**6, "training.max_epochs": None, "training.batch_tokens": 4096}
    values["training.micro_batches"] = 1
    assert model_size.dropout(facts(10**6, gpu=True, size=0), values).value == 0.3  # by the data, not by the size


@pytest.mark.parametrize(("updates", "dropout", "inner"), [(500, 0.1, 0.0), (20_000, 0.3, 0.1)])
def test_few_epochs_need_little_dropout(tmp_path, corpus, updates, dropout, inner):
    recipe = load_recipe(str(recipe_file(tmp_path, *corpus)), [f"training.max_updates={updates}", BATCH])
    model = recipe.model
    assert (model.dropout, model.attention_dropout, model.activation_dropout) == (dropout, inner, inner)
    lines = describe_choices(recipe)
    assert lines == sorted(lines, key=lambda line: ["tokenizer", "model", "training"].index(line.partition(".")[0]))
    assert any(line.endswith("epochs of training") for line in lines) == (updates == 500)
    stated = load_recipe(str(recipe_file(tmp_path, *corpus)), [f"training.max_updates={updates}", "model.dropout=0.2"])
    assert stated.model.dropout == 0.2


def test_epochs_fall_with_the_size_of_the_text():
    values = {"training.batch_tokens": 4096, "training.micro_batches": 1, "training.max_epochs": None}
    updates = [schedule.max_updates(facts(n), values).value for n in (29_000, 300_000, 3_000_000)]
    assert updates == sorted(updates)
    epochs = [schedule.epochs_of(tokens) for tokens in (10_000, 440_000, 4_000_000, 130_000_000)]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[0] == 60
    assert 10 < epochs[-1] < 20
    limited = facts(29_000, updates=123)
    values["training.max_updates"] = schedule.max_updates(limited, values).value
    assert values["training.max_updates"] == updates[0]  # within a budget too, whose updates are fewer
    values["training.budget_updates"] = schedule.budget_updates(limited, values).value
    assert values["training.budget_updates"] == 123
    assert schedule.warmup(limited, values).value == 12
    enough = facts(29_000, updates=10**6)
    assert schedule.budget_updates(enough, values | {"training.budget_updates": None}).value is None


@pytest.mark.parametrize(("updates", "every"), [(40, 40), (150, 100), (1500, 100), (6000, 400)])
def test_validations_are_few_in_a_short_training(updates, every):
    values = {"training.max_updates": updates, "training.max_epochs": None}
    assert schedule.validate_every(facts(1000), values).value == every
    assert schedule.validation_sentences(facts(1000), values).value == 200


@pytest.mark.parametrize(("hours", "every", "sentences"), [(0.5, 300, 50), (1.0, 100, 200)])
def test_validations_are_fewer_and_smaller_within_a_short_budget(hours, every, sentences):
    values = {"training.max_updates": 1500, "training.max_epochs": None}
    limited = facts(1000, hours=hours, words="30m")
    assert schedule.validate_every(limited, values).value == every
    assert schedule.validation_sentences(limited, values).value == sentences


@pytest.mark.parametrize(
    ("updates", "hours", "stated", "choice"),
    [
        (1500, None, None, Choice(5, "5 of 15 validations")),
        (1500, 0.5, None, Choice(None, "too few validations")),  # 5
        (450, None, None, Choice(None, "too few validations")),  # 4
        (1500, None, 50, Choice(5, "5 of 30 validations")),
        (1500, 0.5, 100, Choice(5, "5 of 15 validations")),
        (1500, None, 1000, Choice(None, "too few validations")),
    ],
)
def test_patience_is_less_than_the_validations(updates, hours, stated, choice):
    values = {"training.max_updates": updates, "training.max_epochs": None}
    limited = facts(1000, hours=hours)
    values["training.validate_every"] = stated or schedule.validate_every(limited, values).value
    assert schedule.patience(limited, values) == choice


def test_statistics_of_a_text():
    side = side_statistics(["a b c", "a d", "", "a"])
    assert (side.lines, side.words, side.characters, side.distinct_words) == (4, 1.5, 9 / 4, 4)
    assert side.alphabet == Counter("abcada")
    assert not side.is_unspaced
    assert side_statistics(["これは本です", "日本語の文"]).is_unspaced


def test_statistics_of_files_and_samples(tmp_path, monkeypatch):
    for side in ("src", "tgt"):
        (tmp_path / side).write_text("x y\n" * 1000)
    whole = corpus_statistics([tmp_path / "src"], [tmp_path / "tgt"])
    monkeypatch.setattr("mtkit.recipe.defaults.facts.MAX_SAMPLE", 100)
    sample = corpus_statistics([tmp_path / "src"], [tmp_path / "tgt"])
    assert (sample.pairs, sample.tokens, sample.src.lines) == (whole.pairs, whole.tokens, 1000)
    assert whole.shared_characters == 1


def test_stated_epochs_end_the_training_and_other_choices_follow_them(tmp_path, corpus):
    path = recipe_file(tmp_path, *corpus, "training: {max_epochs: 4}\n")
    recipe = load_recipe(str(path))
    text = "\n".join(describe_choices(recipe))
    assert "a limit above max_epochs 4 of" in text
    expected = schedule.updates_of_epochs(4, facts_of(corpus), recipe.training.resolved_batch_tokens)
    assert recipe.training.max_updates >= 1.5 * expected
    assert recipe.training.schedule.warmup == round(0.1 * expected)
    with_limit = choose(read_recipe(str(path)), BudgetLimits(updates=7, hours=1, words="1h"))
    assert (with_limit.training.scheduled_updates, with_limit.training.schedule.warmup) == (7, 1)
    assert with_limit.training.max_updates == recipe.training.max_updates


@pytest.mark.parametrize("limits", [{}, {"hours": 1}, {"hours": 1, "updates": 800}])
def test_the_limit_above_stated_epochs_is_twice_their_updates(limits):
    """137,000 tokens: 744 updates."""
    values = {"training.batch_tokens": 2048, "training.micro_batches": 1, "training.max_epochs": 10}
    text = facts(7215, **limits)
    assert schedule.updates_of_epochs(10, text.corpus.tokens, 2048) == 744
    values["training.max_updates"] = schedule.max_updates(text, values).value
    assert values["training.max_updates"] == 1500
    assert schedule.budget_updates(text, values).value is None
    assert schedule.budget_updates(facts(7215, hours=1, updates=700), values).value == 700


def facts_of(corpus):
    return CorpusStatistics(len(corpus[0]), *(side_statistics(side) for side in corpus)).tokens


def test_choices_follow_from_the_subset_of_a_limit(tmp_path, corpus):
    path = recipe_file(tmp_path, *corpus)
    limited = load_recipe(str(path), ["corpus.train.0.limit=300"])
    short = recipe_file(tmp_path, *(side[9::10] for side in corpus))
    assert limited.chosen == load_recipe(str(short)).chosen


def test_choices_with_one_reason_share_a_line():
    reasons = {"model.d_model": "tiny", "model.d_ff": "tiny", "model.dropout": "few", "training.schedule.warmup": "few"}
    plain = {"model": {"d_model": 1280, "d_ff": 256, "dropout": 0.3}, "training": {"schedule": {"warmup": 7}}}
    lines = ["model.d_model 1,280, d_ff 256: tiny", "model.dropout 0.3: few", "training.schedule.warmup 7: few"]
    assert describe(reasons, plain) == lines
    others = {"a.shared": "x", "a.positions": "y", "a.budget": "no budget"}
    plain = {"a": {"shared": True, "positions": {"kind": "rope"}, "budget": None}}
    assert describe(others, plain) == ["a.shared true: x", "a.positions rope: y"]


@pytest.mark.parametrize("key", [rule.key for rule in RULES])
def test_each_rule_is_documented(key):
    rows = [line.split(" | ")[0] for line in (ROOT / "docs/defaults.md").read_text().split("\n") if line[:1] == "|"]
    section, _, name = key.partition(".")
    plain = {"_layers": "layers", "_positions": "positions"}.get(name[name.find("_") :], "not in any row")
    assert any(f"`{key}`" in row or (f"`{section}." in row and f"`{name}`" in row) or plain in row for row in rows)


def test_a_vocabulary_of_characters_can_be_trained(tmp_path, corpus):
    recipe = load_recipe(str(recipe_file(tmp_path, *corpus, "tokenizer: {model_type: char}\n")))
    train_pair([tmp_path / "t.en"], [tmp_path / "t.de"], tmp_path, recipe.tokenizer)
    assert TokenizerPair.load(tmp_path).src.vocab.size == recipe.tokenizer.vocab_size
    assert "different characters" in recipe.chosen["tokenizer.vocab_size"]


@pytest.mark.parametrize("seed", range(sampled(20)))
def test_words_of_a_list_are_spelled(tmp_path, seed):
    """A vocabulary of whole words learns a list by heart, and can say nothing about another word."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"[: rng.randint(5, 26)]
    words = ["".join(rng.choices(letters, k=rng.randint(2, 12))) for _ in range(rng.randint(300, 3000))]
    recipe = load_recipe(str(recipe_file(tmp_path, words, [word.upper() for word in words])))
    assert len(set(letters)) < recipe.tokenizer.vocab_size <= model_size.RESERVED + 4 * len(letters)
    train_pair([tmp_path / "t.en"], [tmp_path / "t.de"], tmp_path, recipe.tokenizer)
    assert TokenizerPair.load(tmp_path).src.vocab.size == recipe.tokenizer.vocab_size
