"""Required phrases: contained in every translation; exact in a wide beam."""

from __future__ import annotations

import random

import pytest
import torch

from mtkit.search.config import SamplingConfig
from mtkit.search.constraints import (
    ExcludedTexts,
    ForcedPrefix,
    IncludedPhrases,
    NoRepeatNgram,
    PartialHypotheses,
    TokenBytes,
)
from tests.unit.search import scripted
from tests.unit.search.scripted import ScriptedModel, beam, single_path

MAX = 4
SPECIAL_IDS = ScriptedModel(vocab=8).special_ids
PHRASES = [[], [[3]], [[4, 4], [5]], [[3, 4], [4, 3]], [[5, 4, 3]], [[3, 5, 3, 5]]]


def contains(tokens, phrase) -> bool:
    return any(list(tokens[i : i + len(phrase)]) == phrase for i in range(len(tokens) - len(phrase) + 1))


def request(phrases=PHRASES, max_length=MAX, *, banks=True, before=()):
    included = IncludedPhrases(phrases, [max_length] * len(phrases), SPECIAL_IDS)
    constraints = {"constraints": (*before, included), "selector": included if banks else None}
    return scripted.request(list(range(len(phrases))), max_length, **constraints)


@pytest.mark.parametrize("banks", [True, False])
def test_wide_beam_is_exact(banks):
    model = ScriptedModel(seed=11)
    results = beam(model, beam_size=300, n_best=3)(model, request(banks=banks))
    for b, hypotheses in enumerate(results):
        sentences = [s for s in model.all_sentences(MAX) if all(contains(s, p) for p in PHRASES[b])]
        truth = sorted(sentences, key=lambda s, b=b: -sum(model.log_probs(b, s)) / (len(s) + 1))[:3]
        assert [tuple(h.tokens) for h in hypotheses] == truth
        for h in hypotheses:
            assert h.token_log_probs == pytest.approx(model.log_probs(b, tuple(h.tokens)), abs=1e-5)


def random_phrases(rng: random.Random, vocab: int) -> list[list[int]]:
    return [[rng.randrange(3, vocab) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(0, 3))]


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(4))
def test_phrases_are_always_contained(seed):
    rng = random.Random(seed)
    model = ScriptedModel(vocab=8, seed=seed, scale=4.0)
    phrases = [random_phrases(rng, 8) for _ in range(8)]
    searches = [
        single_path(model),
        single_path(model, choose=SamplingConfig(seed=seed).chooser(), num_paths=3),
        *(beam(model, beam_size=size, n_best=size, patience=1.0) for size in (1, 2, 5)),
    ]
    never_x = ExcludedTexts([[b"x"]] * 8, TokenBytes([b"", b"", b"", b"x", *[b"y"] * 4]))
    for before in ((), (NoRepeatNgram(1),), (never_x,)):
        for search in searches:
            for b, hypotheses in enumerate(search(model, request(phrases, 12, before=before))):
                assert hypotheses
                for h in hypotheses:
                    assert all(contains(h.tokens, phrase) for phrase in phrases[b])
                    assert len(h.tokens) <= 12


def test_together_with_a_prefix():
    model = ScriptedModel(vocab=8, seed=1, scale=4.0)
    prefixes = [[4, 4, 4], [5], []]
    phrases = [[[6, 7]], [[5, 3], [7]], [[3]]]
    results = beam(model, beam_size=3, n_best=3)(model, request(phrases, 6, before=(ForcedPrefix(prefixes),)))
    for b, hypotheses in enumerate(results):
        for h in hypotheses:
            assert h.tokens[: len(prefixes[b])] == prefixes[b]
            assert all(contains(h.tokens, phrase) for phrase in phrases[b])


def test_banks_find_better_sentences_than_the_constraint_alone():
    total = {True: 0.0, False: 0.0}
    for seed in range(6):
        model = ScriptedModel(vocab=10, seed=seed, scale=3.0)
        phrases = [[[3 + b, 9 - b]] for b in range(6)]
        for banks in total:
            results = beam(model, beam_size=4, n_best=3, patience=1.0)(model, request(phrases, 9, banks=banks))
            total[banks] += sum(hypotheses[0].score for hypotheses in results)
    assert total[True] > total[False]


def test_number_of_missing_tokens():
    included = IncludedPhrases([[[3, 4, 5], [4, 6]]], [9], SPECIAL_IDS)
    expected = {(): 5, (3,): 4, (3, 4): 3, (3, 4, 6): 3, (3, 4, 5): 2, (3, 4, 5, 4): 1, (4, 6, 3, 4, 5): 0, (4, 3): 4}
    for tokens, count in expected.items():
        hypotheses = PartialHypotheses(torch.tensor([tokens], dtype=torch.int64), torch.tensor([0]))
        assert included.missing(hypotheses).tolist() == [count], tokens


def test_impossible_phrases_are_refused():
    with pytest.raises(ValueError, match="phrases of 5 tokens in a sentence of at most 4"):
        IncludedPhrases([[[3, 4], [5, 5, 5]]], [4], SPECIAL_IDS)
    with pytest.raises(ValueError, match="no tokens"):
        IncludedPhrases([[[]]], [4], SPECIAL_IDS)
