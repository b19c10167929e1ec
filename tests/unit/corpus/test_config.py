from pathlib import Path

import pytest

from mtkit.corpus.config import CorpusConfig
from mtkit.errors import RecipeError
from mtkit.recipe import schema
from mtkit.recipe.located import with_location

BASE = {"src_lang": "en", "tgt_lang": "no", "train": [{"src": "a", "tgt": "b"}]}


def read(**changes):
    return schema.build(CorpusConfig, with_location(BASE | changes, "recipe", Path()))


def test_defaults():
    config = read()
    assert config.valid is None
    assert config.test == {}
    assert config.cleaning.max_length == 256


def test_weights_for_all_or_none():
    files = {"src": "a", "tgt": "b"}
    assert [part.weight for part in read(train=[files | {"weight": 2}, files | {"weight": 1}]).train] == [2, 1]
    with pytest.raises(RecipeError, match=r"train\.1\.weight: missing"):
        read(train=[files | {"weight": 2}, files])


def test_a_temperature_prefers_small_corpora():
    files, sizes = {"src": "a", "tgt": "b"}, [32_000, 1_000]
    assert read(train=[files, files]).weights(sizes) == ()
    assert read(train=[files | {"weight": 2}, files | {"weight": 1}]).weights(sizes) == (2, 1)
    for temperature, ratio in ((1, 32), (5, 2)):
        large, small = read(train=[files, files], sampling_temperature=temperature).weights(sizes)
        assert large / small == pytest.approx(ratio)
    with pytest.raises(RecipeError, match="and so do their weights; omit one of them"):
        read(train=[files | {"weight": 2}], sampling_temperature=2)


@pytest.mark.parametrize(
    "bad",
    [{"train": []}, {"test": {"../up": {"src": "a", "tgt": "b"}}}, {"train": [{"src": "a", "tgt": "b", "weight": 0}]}],
)
def test_invalid_values_are_rejected(bad):
    with pytest.raises(RecipeError):
        read(**bad)
