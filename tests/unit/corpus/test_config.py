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


@pytest.mark.parametrize(
    "bad",
    [{"train": []}, {"test": {"../up": {"src": "a", "tgt": "b"}}}, {"train": [{"src": "a", "tgt": "b", "weight": 0}]}],
)
def test_invalid_values_are_rejected(bad):
    with pytest.raises(RecipeError):
        read(**bad)
