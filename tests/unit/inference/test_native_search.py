"""Whole searches of the native library against the reference implementation of searches and layers."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as test_settings
from hypothesis import strategies as st

from mtkit.config import config as configuration
from mtkit.corpus.order.batch import Target
from mtkit.errors import DataError
from mtkit.inference import native_search, support
from mtkit.inference.native_search import NativeModel
from mtkit.inference.support import unsupported_model_key
from mtkit.native import library
from mtkit.native.library import native
from mtkit.search.config import DiverseBeamConfig, SamplingConfig, SearchConfig
from mtkit.search.hypothesis import Hypothesis, SentenceRequest
from mtkit.search.length_penalty import GNMT, WordReward
from mtkit.search.support import unsupported
from tests.toy.searches import random_search
from tests.unit.inference.native_models import (
    LENGTHS,
    REFUSED,
    SMALL,
    SPECIAL_IDS,
    SUPPORTED,
    TOKEN_BYTES,
    assert_alike,
    build,
    fast,
    known_scores,
    padded,
    requests,
    settings,
    sources,
    weights_of,
    written_search,
)

pytestmark = pytest.mark.skipif(native().functions is None, reason=f"no native library: {native().reason}")

GREEDY, BEAM = SearchConfig(beam_size=1), SearchConfig(beam_size=4, n_best=3)
LIMITS = {"max_length": [i % 7 for i in range(10)], "min_length": [i % 4 for i in range(10)]}
PREFIX = {"prefix": [[4 + i, 20, 9][: i % 4] for i in range(10)], "max_length": [3 + i for i in range(10)]}
EXCLUDED = {"exclude": [[[b"ab", b"c"], [], [b"a", b"bc"], [b"dddd", b"ba", b"ab"]][i % 4] for i in range(10)]}


def sampled(**options: Any) -> SearchConfig:
    return SearchConfig(method=SamplingConfig(**options), n_best=options.get("num_samples", 1))


SEARCHES: dict[str, tuple[SearchConfig, dict[str, Any]]] = {
    "beam": (BEAM, {}),
    "limits": (BEAM, LIMITS),
    "beam of two, one best": (SearchConfig(beam_size=2), {}),
    "wide beam": (SearchConfig(beam_size=50, n_best=20), LIMITS),
    "patience": (replace(BEAM, patience=3.0), {}),
    "late stopping": (replace(BEAM, early_stopping=False), {}),
    "late stopping, one best": (SearchConfig(beam_size=4, early_stopping=False), LIMITS),
    "no length penalty": (replace(BEAM, length_penalty=0.0), {}),
    "gnmt": (replace(BEAM, length_penalty=GNMT()), {}),
    "word reward": (replace(BEAM, length_penalty=WordReward(reward=-0.3)), {}),
    "coverage": (replace(BEAM, coverage_penalty=3.0, patience=2.0), {}),
    "coverage, late stopping": (replace(BEAM, coverage_penalty=3.0, early_stopping=False), LIMITS),
    "coverage, one path": (replace(GREEDY, coverage_penalty=0.5), PREFIX),
    "greedy": (GREEDY, {}),
    "greedy with limits": (GREEDY, LIMITS),
    "prefix": (BEAM, PREFIX),
    "free prefix": (BEAM, {**PREFIX, "free_prefix": [2] * 10}),
    "free prefix, late stopping": (replace(BEAM, early_stopping=False), {**PREFIX, "free_prefix": [1] * 10}),
    "greedy with a prefix": (GREEDY, PREFIX),
    "excluded": (BEAM, EXCLUDED),
    "greedy with excluded texts": (GREEDY, EXCLUDED),
    "everything excluded": (BEAM, {"exclude": [[b"a", b"b", b"c", b"d"]] * 10, "min_length": [3] * 10}),
    "a forced text that is excluded": (BEAM, {**PREFIX, **EXCLUDED}),
    "no 1-gram": (replace(BEAM, no_repeat_ngram=1), {}),
    "no 2-gram, greedy": (replace(GREEDY, no_repeat_ngram=2), {}),
    "repetition penalty": (replace(BEAM, repetition_penalty=1.4), {}),
    "repetition penalty, greedy": (replace(GREEDY, repetition_penalty=1.4), {**PREFIX, **EXCLUDED}),
    "sampling": (sampled(), {}),
    "samples": (sampled(num_samples=5, temperature=1.3), LIMITS),
    "nucleus": (sampled(num_samples=3, top_p=0.7), {}),
    "top k": (sampled(num_samples=3, top_k=4, temperature=2.0), EXCLUDED),
    "epsilon": (sampled(num_samples=2, epsilon=0.03), PREFIX),
    "samples without repeats": (replace(sampled(num_samples=2), no_repeat_ngram=2, repetition_penalty=1.2), PREFIX),
}


def tokens_of(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[list(each.tokens) for each in hypotheses] for hypotheses in found]


@pytest.mark.parametrize(("config", "changes"), SEARCHES.values(), ids=SEARCHES)
def test_hypotheses_are_those_of_the_written_search(config, changes) -> None:
    # patience and late stopping matter where many hypotheses end early
    model, asked = (
        build(end_factor=8.0 if config.patience > 1 or not config.early_stopping else 2.0),
        requests(**changes),
    )
    expected = written_search(model, config, asked, with_attention=True)
    if (config, changes) != (BEAM, {}):
        assert tokens_of(expected) != tokens_of(written_search(model, BEAM, requests()))
    found = fast(SMALL, model).search(asked, settings(config, with_attention=True))
    assert_alike(found, expected)


@pytest.mark.whole
@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_hypotheses_of_random_searches_are_those_of_the_written_search(count) -> None:
    model, seeds = build(end_factor=6.0), iter(range(10 * count))
    searches = (search for search in map(random_search, seeds) if not unsupported("native", search))
    for config in islice(searches, count):
        limits = [config.min_length.of(len(request.source)) for request in requests()]
        asked = requests(min_length=limits)
        expected = written_search(model, config, asked, with_attention=True)
        assert_alike(fast(SMALL, model).search(asked, settings(config, with_attention=True)), expected)


@pytest.mark.parametrize("config", SUPPORTED.values(), ids=SUPPORTED)
def test_supported_models_compute_what_the_layers_compute(config) -> None:
    assert unsupported_model_key(config) is None
    model = build(config)
    for search in (GREEDY, BEAM):
        expected = written_search(model, search, requests())
        assert_alike(fast(config, model).search(requests(), settings(search)), expected, tolerance=1e-4)


@pytest.mark.parametrize("head", [[2, 0], [0, 3]])
def test_the_attention_of_an_alignment_head_is_returned_alone(head: list[int]) -> None:
    config = replace(SMALL, alignment_head=head)
    model = build(config)
    expected = written_search(model, BEAM, requests(), with_attention=True)
    assert_alike(fast(config, model).search(requests(), settings(BEAM, with_attention=True)), expected)


@pytest.mark.parametrize("config", REFUSED.values(), ids=REFUSED)
def test_other_models_are_refused(config) -> None:
    assert unsupported_model_key(config) is not None


def test_other_searches_are_refused() -> None:
    assert unsupported("native", BEAM) == unsupported("native", sampled()) == []
    assert unsupported("native", SearchConfig(beam_size=4, method=DiverseBeamConfig(groups=2))) == ["method"]

    @configuration
    class LaterSamplingConfig(SamplingConfig):
        """Sampling with a truncation that no engine knows."""

        min_p: float = 0.0

    for engine in ("native", "huggingface"):
        assert "method" not in unsupported(engine, SearchConfig(method=LaterSamplingConfig()))
        assert "method" in unsupported(engine, SearchConfig(method=LaterSamplingConfig(min_p=0.1)))


def test_a_new_key_is_refused_unless_it_has_its_default(monkeypatch) -> None:
    @configuration
    class LaterSearchConfig(SearchConfig):
        """A search with a key that the library does not know."""

        stop_margin: float = 0.0

    assert unsupported("native", LaterSearchConfig()) == []
    assert unsupported("native", LaterSearchConfig(stop_margin=0.5)) == ["stop_margin"]
    without_bias = replace(SMALL, bias=False)
    assert unsupported_model_key(without_bias) is None
    fewer = replace(support.SUPPORTED_MODELS, any_value=support.SUPPORTED_MODELS.any_value - {"bias"})
    monkeypatch.setattr(support, "SUPPORTED_MODELS", fewer)
    assert unsupported_model_key(SMALL) is None
    assert unsupported_model_key(without_bias) == "bias"


def test_greedy_search_without_log_probabilities_finds_the_same_tokens() -> None:
    model = build()
    for changes in ({}, LIMITS):
        expected = written_search(model, GREEDY, requests(**changes), with_log_probs=False)
        options = settings(GREEDY, with_log_probs=False)
        found = fast(SMALL, model).search(requests(**changes), options)
        assert_alike(found, expected)
        assert all(known_scores(best) == [] for best, *_ in found)


@pytest.mark.parametrize("dtype", ["float32", "bf16", "int8"])
@pytest.mark.parametrize("config", [GREEDY, BEAM, sampled(num_samples=3)], ids=["greedy", "beam", "samples"])
def test_a_sentence_has_the_same_result_in_any_batch(config, dtype, monkeypatch) -> None:
    monkeypatch.setattr(library, "MIN_ROWS", 1)
    model = build()
    one, two = (fast(SMALL, model, dtype, threads=count) for count in (1, 2))
    options = settings(config, with_attention=True, num_alternatives=2)
    together = two.search(requests(), options)
    for request, hypotheses in zip(requests(), together, strict=True):
        (alone,) = one.search([request], options)
        assert [each.tokens for each in alone] == [each.tokens for each in hypotheses]
        assert [each.token_log_probs for each in alone] == [each.token_log_probs for each in hypotheses]
        assert [each.alternatives for each in alone] == [each.alternatives for each in hypotheses]
        assert all(np.array_equal(a.attention, b.attention) for a, b in zip(alone, hypotheses, strict=True))


@pytest.mark.parametrize(("dtype", "tolerance"), [("bf16", 0.1), ("int8", 0.1)])
def test_rounded_weights_score_nearly_the_same(dtype, tolerance) -> None:
    model = build()
    exact = fast(SMALL, model).search(requests(), settings(BEAM))
    pairs = [(source, best.tokens) for source, (best, *_) in zip(sources(), exact, strict=True)]
    scores = fast(SMALL, model, dtype).score(pairs, SPECIAL_IDS)
    for (best, *_), tokens in zip(exact, scores, strict=True):
        assert [token.log_prob for token in tokens] == pytest.approx(best.token_log_probs, abs=tolerance)
    assert [[t.log_prob for t in each] for each in scores] != [best.token_log_probs for best, *_ in exact]


def test_bfloat16_files_are_read_as_bits() -> None:
    model = build().bfloat16()
    bits = {name: p.detach().view(torch.int16).numpy().view(np.uint16) for name, p in model.named_parameters()}
    options = settings(BEAM)
    expected = fast(SMALL, model.float()).search(requests(), options)
    assert_alike(NativeModel(SMALL, bits, "float32", threads=1).search(requests(), options), expected, 0)


def test_given_targets_have_the_scores_of_the_model_as_written() -> None:
    model, targets = build(), [[4 + i, 1, 9, 0, 7][: i % 6] for i in range(10)]
    scores = fast(SMALL, model).score(list(zip(sources(), targets, strict=True)), SPECIAL_IDS)
    for request, target, tokens in zip(requests(), targets, scores, strict=True):
        ids = torch.tensor([[2, *target]])
        given_target = Target(ids, torch.ones_like(ids, dtype=torch.bool), torch.arange(ids.size(1)).unsqueeze(0))
        with torch.inference_mode():
            log_probs = model.output(model.decode_states(padded([request]), given_target))[0].log_softmax(-1)
        labels = torch.tensor([*target, 3]).unsqueeze(1)
        assert [t.log_prob for t in tokens] == pytest.approx(log_probs.gather(1, labels).squeeze(1).tolist(), abs=2e-5)
        assert [t.best_log_prob for t in tokens] == pytest.approx(log_probs.amax(1).tolist(), abs=2e-5)


def test_alternatives_are_the_most_probable_tokens_at_each_position() -> None:
    model = build()
    (best, *_), *_ = fast(SMALL, model).search(requests()[:1], settings(BEAM, num_alternatives=7))
    state = model.start(padded(requests()[:1]))
    assert len(best.alternatives) == len(best.tokens) + 1
    for token, found in zip([2, *best.tokens], best.alternatives, strict=True):
        step = model.step(torch.tensor([token]), state)
        state = step.state
        expected = step.logits().log_softmax(-1).topk(7)
        assert [token for token, _ in found] == expected.indices[0].tolist()
        assert [log_prob for _, log_prob in found] == pytest.approx(expected.values[0].tolist(), abs=2e-5)


@pytest.mark.parametrize("config", [GREEDY, BEAM, sampled()], ids=["greedy", "beam", "sampling"])
@pytest.mark.parametrize("with_log_probs", [True, False])
def test_a_sentence_with_nan_fails_alone(config, with_log_probs) -> None:
    untied = replace(SMALL, tied_embeddings="none")
    weights, asked = {name: array.copy() for name, array in weights_of(build(untied)).items()}, requests()
    bad = asked[3].source[0]
    weights["src_embedding.table.weight"][bad] = math.nan
    model = NativeModel(untied, weights, "float32", threads=1)
    options = settings(config, with_log_probs=with_log_probs)
    failed = [each.failed for each, *_ in model.search(asked, options)]
    assert failed == [bad in each.source for each in asked]
    assert not all(failed)


def test_a_sentence_beyond_the_learned_positions_is_refused() -> None:
    config = SUPPORTED["learned"]
    model = fast(config, build(config))
    with pytest.raises(DataError, match="41 tokens is longer than the 40 learned positions"):
        model.search([SentenceRequest(source=[5] * 41, max_length=3)], settings(GREEDY))
    with pytest.raises(DataError, match="learned positions"):
        model.search([SentenceRequest(source=[5], max_length=40)], settings(GREEDY))


@test_settings(max_examples=25)
@given(
    text=st.binary(min_size=1, max_size=6).map(lambda raw: bytes(b"abcd"[byte % 4] for byte in raw)),
    ngram=st.integers(0, 3),
    beam_size=st.integers(1, 6),
    max_length=st.integers(0, 12),
)
def test_results_obey_all_constraints(text, ngram, beam_size, max_length) -> None:
    config = SearchConfig(beam_size=beam_size, n_best=beam_size, no_repeat_ngram=ngram)
    asked = [SentenceRequest(source=source, max_length=max_length, exclude=[text]) for source in sources(LENGTHS[:3])]
    for hypotheses in fast(SMALL, build()).search(asked, settings(config)):
        assert hypotheses
        for one in hypotheses:
            assert len(one.tokens) <= max_length
            assert text not in b"".join(TOKEN_BYTES[token] for token in one.tokens)
            ngrams = [tuple(one.tokens[i : i + ngram]) for i in range(len(one.tokens) - ngram + 1)]
            assert not ngram or len(set(ngrams)) == len(ngrams)
            assert sum(one.token_log_probs) == pytest.approx(one.log_prob, abs=1e-4)


class OtherFunctions:
    """The library with some functions replaced."""

    def __init__(self, functions: Any, **replaced: Any) -> None:
        self.functions = functions
        vars(self).update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.functions, name)


def with_functions(**replaced: Any) -> NativeModel:
    """A model on two threads whose library has other functions."""
    model = fast(SMALL, build(), threads=2)
    model.functions = OtherFunctions(model.functions, **replaced)
    return model


@pytest.mark.parametrize(("name", "result"), [("begin", None), ("run", -1)])
def test_exhausted_memory_is_an_error(name, result) -> None:
    model = with_functions(**{f"mtkit_search_{name}": lambda *_: result})
    with pytest.raises(MemoryError, match="memory"):
        model.search(requests(), settings(BEAM))


def test_a_search_without_memory_does_not_begin() -> None:
    """Four terabytes of cache are refused without a crash."""
    functions: Any = native().functions
    begun = []

    def begin(task: Any, places: int) -> Any:
        begun.append(functions.mtkit_search_begin(task, 1 << 28))
        return begun[-1]

    with pytest.raises(MemoryError, match="memory"):
        with_functions(mtkit_search_begin=begin).search(requests(), settings(BEAM, with_attention=True))
    assert set(begun) == {None}


def test_an_interruption_ends_all_threads(monkeypatch) -> None:
    functions: Any = native().functions
    ended, calls = [], []

    def interrupted(handle: Any, steps: int) -> int:
        calls.append(steps)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return max(1, functions.mtkit_search_run(handle, 1))  # would never end

    def end(handle: Any) -> None:
        functions.mtkit_search_end(handle)
        ended.append(handle)

    monkeypatch.setattr(native_search, "MIN_ROWS", 1)
    model = with_functions(mtkit_search_run=interrupted, mtkit_search_end=end)
    with pytest.raises(KeyboardInterrupt):
        model.search(requests(), settings(BEAM))
    assert len(ended) == 2
