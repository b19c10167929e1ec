"""Search settings of exports: every key of a search survives, or is named."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtkit.config import config as configuration
from mtkit.errors import UsageError
from mtkit.export.ctranslate2 import search_options
from mtkit.export.equivalence import lost_settings
from mtkit.importers.foreign_folder import Fields
from mtkit.importers.generation import search_config
from mtkit.search.config import SamplingConfig, SearchConfig
from mtkit.search.length_penalty import Average
from mtkit.search.support import ENGINES, TABLE, Engine, options, unsupported
from mtkit.text.vocab import Vocab
from tests.toy.searches import VALUES, random_search

VOCAB = Vocab(size=50, pad=49, unk=1, bos=49, eos=0)
COUNTS = [pytest.param(20, id="20"), pytest.param(200, id="200", marks=pytest.mark.slow)]


def neutral(search: SearchConfig) -> SearchConfig:
    """The search with the defaults of keys that have no effect, and one form of the length penalty."""
    defaults = SearchConfig()
    ignored = {key: getattr(defaults, key) for key in search.ignored_keys()}
    penalty = search.penalty()
    return replace(search, **ignored, length_penalty=penalty.alpha if isinstance(penalty, Average) else penalty)


def names_in(sentences: list[str]) -> set[str]:
    return {key for key in VALUES if any(f"search.{key}=" in each for each in sentences)}


@pytest.mark.parametrize("count", COUNTS)
def test_what_hugging_face_export_writes_comes_back_and_the_rest_is_named(count: int) -> None:
    differing: set[str] = set()
    for seed in range(count):
        search = random_search(seed)
        banned = [[VOCAB.pad], *([] if search.allow_unknown else [[VOCAB.unk]])]
        written = Fields(Path("generation_config.json"), {**options("huggingface", search), "bad_words_ids": banned})
        tgt: Any = SimpleNamespace(vocab=VOCAB, before=[], languages={})
        again, notes = search_config(Fields(Path("config.json"), {}), written, tgt, has_output_bias=True)
        named = names_in(lost_settings("huggingface", "transformers", search))
        if any("do_sample" in each for each in notes):
            named |= {"method", "beam_size", "n_best"}
        if any("num_return_sequences" in each for each in notes):
            named.add("n_best")
        ours, theirs = neutral(search), neutral(again)
        limits = [(each.max_length.of(9), each.min_length.of(9)) for each in (ours, theirs)]
        for key in VALUES:
            if key.endswith("_length"):
                is_equal = limits[0][key == "min_length"] == limits[1][key == "min_length"]
            else:
                is_equal = getattr(ours, key) == getattr(theirs, key) or key in search.ignored_keys()
            has_no_effect = key in again.ignored_keys() or getattr(search, key) == TABLE[key].neutral
            assert is_equal or has_no_effect or key in named, (seed, key, search, again, notes)
        differing |= named
    assert differing >= {"coverage_penalty", "length_penalty", "patience", "rerank", "retry_loops"}


@pytest.mark.parametrize("count", COUNTS)
def test_every_key_that_has_an_effect_is_told_or_named(count: int) -> None:
    for seed in range(count):
        search = random_search(seed)
        for engine in ENGINES:
            told, named = options(engine, search), unsupported(engine, search)
            for key in VALUES.keys() - search.ignored_keys():
                has_effect = getattr(search, key) != TABLE[key].neutral
                others = [option for option in VALUES[key] if option != getattr(search, key)]
                is_told = any(_options_with(engine, search, key, each) != told for each in others)
                is_elsewhere = TABLE[key].options(engine, search, getattr(search, key)) == {}
                assert not has_effect or is_told or is_elsewhere or key in named, (seed, engine, key)
        named = names_in(lost_settings("onnx", "ONNX", search))
        assert named == set(unsupported("onnx", search))


def _options_with(engine: Engine, search: SearchConfig, key: str, value: Any) -> dict[str, Any] | None:
    try:
        return options(engine, replace(search, **{key: value}))
    except ValueError:
        return None


def test_the_table_has_every_key() -> None:
    assert list(VALUES) == [key.name for key in fields(SearchConfig)]
    assert TABLE.keys() == VALUES.keys()
    assert unsupported("native", SearchConfig()) == []


@configuration
class LaterSamplingConfig(SamplingConfig):
    """Sampling with a truncation that no engine knows."""

    top_a: float = 0.0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_new_key_of_sampling_is_refused_by_every_engine_unless_it_has_its_default(engine: Engine) -> None:
    search, refusing = SearchConfig(method=LaterSamplingConfig()), {"ctranslate2", "argos", "onnx"}
    assert ("method" in unsupported(engine, search)) == (engine in refusing)
    assert "method" in unsupported(engine, replace(search, method=LaterSamplingConfig(top_a=0.5)))


@configuration
class LaterSearchConfig(SearchConfig):
    """A search with a key that no engine knows."""

    stop_margin: float = 0.0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_new_key_is_refused_by_every_engine_unless_it_has_its_default(engine: Engine) -> None:
    assert "stop_margin" not in unsupported(engine, LaterSearchConfig())
    assert "stop_margin" in unsupported(engine, LaterSearchConfig(stop_margin=0.5))
    with pytest.raises(UsageError, match=r"search.stop_margin=0.5: CTranslate2 has no option for this"):
        search_options(LaterSearchConfig(stop_margin=0.5))
