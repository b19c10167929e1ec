"""What a recipe may say of text in one language and of its noise."""

from pathlib import Path

import pytest

from mtkit.corpus.config import Text, TrainFiles, TrainText
from mtkit.errors import RecipeError
from mtkit.recipe.recipe import load_recipe, load_saved, save_recipe

RECIPE = """\
name: denoising
corpus:
  root: text
  src_lang: de
  tgt_lang: de
  train: [{text: mono.de}, {text: more.de}]
  valid: {text: valid.de}
  noise: {kind: bart, infill: 0.4}
model: {kind: transformer}
"""


def written(folder: Path, *changes: tuple[str, str]) -> str:
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "recipe.yaml"
    path.write_text(text)
    return str(path)


def test_text_stands_for_both_sides(tmp_path):
    recipe = load_recipe(written(tmp_path))
    first, valid = recipe.corpus.train[0], recipe.corpus.valid
    assert isinstance(first, TrainText)
    assert isinstance(valid, Text)
    assert first.src == first.tgt == tmp_path / "text" / "mono.de"
    save_recipe(recipe, tmp_path / "saved.yaml")
    assert load_saved(tmp_path / "saved.yaml") == recipe


def test_pairs_stand_beside_text(tmp_path):
    change = ("{text: mono.de}, {text: more.de}", "{text: mono.de, weight: 2}, {src: a.en, tgt: a.de, weight: 1}")
    text, pair = load_recipe(written(tmp_path, change)).corpus.train
    assert isinstance(text, TrainText)
    assert isinstance(pair, TrainFiles)
    assert (text.weight, pair.weight) == (2, 1)


FAULTS = [
    (
        [("  noise: {kind: bart, infill: 0.4}\n", "")],
        r"6: corpus.train.0: text in one language is .* such as {kind: spans",
    ),
    (
        [("{text: mono.de}, {text: more.de}", "{src: a, tgt: b}"), ("{text: valid.de}", "{src: a, tgt: b}")],
        "8: corpus.noise: th",
    ),
    (
        [("{text: more.de}", "{text: more.de, src: a.de}")],
        "6: corpus.train.1.src: no such key; known here: text, weight",
    ),
    (
        [("{text: more.de}", "{src: a, tgt: b}"), ("kind: bart, infill: 0.4", "kind: masks")],
        "corpus.train.1: a pair of",
    ),
    ([("kind: bart, infill: 0.4", "kind: masks")], "training.objective.kind: masked_language_model and corpus.noise"),
    (
        [("kind: bart, infill: 0.4", "kind: bert")],
        r"no such kind: 'bert'; did you mean bart\? \(the kinds are spans, bart, m",
    ),
    ([("kind: bart, infill: 0.4", "kind: bart, infill: 1")], "corpus.noise.infill: 1: must be less than 1"),
    ([("model:", "tokenizer: {shared: false}\nmodel:")], "tied_embeddings: all needs one vocabulary"),
    (
        [
            ("kind: transformer", "kind: lstm, tied_embeddings: target"),
            ("model:", "tokenizer: {shared: false}\nmodel:"),
        ],
        "r.shared: text in",
    ),
    (
        [("model:", "training: {validation: {metric: bleu}}\nmodel:")],
        "metric: text in one language has no translations",
    ),
    (
        [
            ("kind: bart, infill: 0.4", "kind: masks"),
            ("kind: transformer", "kind: lstm"),
            ("model:", "training: {objective: {kind: masked_language_model}}\nmodel:"),
        ],
        "model.kind: masked_language_model trains an encoder of states, which lstm has not",
    ),
]  # what is changed in the recipe, and what is said of it


@pytest.mark.parametrize(("changes", "message"), FAULTS)
def test_messages(tmp_path, changes, message):
    with pytest.raises(RecipeError, match=message):
        load_recipe(written(tmp_path, *changes))
