"""Phrases that must appear: always there, and the best sentence with them where the beam is wide."""

from __future__ import annotations

import math
import random

import pytest
import torch

from mtkit.search.beam.beam import BeamSearch
from mtkit.search.constraints.constraint import Prefixes
from mtkit.search.constraints.forbidden import ForbiddenTexts, Spellings
from mtkit.search.constraints.forced_prefix import ForcedPrefix
from mtkit.search.constraints.repeats import NoRepeatNgram
from mtkit.search.constraints.required import RequiredPhrases
from mtkit.search.fast_topk import Top, with_columns
from mtkit.search.interface import Request
from mtkit.search.length_penalty import Average
from mtkit.search.sampling import Draw
from mtkit.search.single_path import Walk
from tests.unit.search.scripted import ScriptedModel

MAX, SENTENCES = 4, 6
SYMBOLS = ScriptedModel(vocab=8).symbols
PHRASES = [[], [[3]], [[4, 4], [5]], [[3, 4], [4, 3]], [[5, 4, 3]], [[3, 5, 3, 5]]]


def contains(tokens, phrase) -> bool:
    return any(list(tokens[i : i + len(phrase)]) == phrase for i in range(len(tokens) - len(phrase) + 1))


def request(phrases=PHRASES, longest=MAX, *, banks=True, before=()) -> Request:
    asked = Request.of(torch.arange(len(phrases)), torch.full((len(phrases),), longest))
    required = RequiredPhrases(phrases, [longest] * len(phrases), SYMBOLS)
    changes = {"constraints": (*before, required), "selection": required if banks else None}
    return Request(**{**vars(asked), **changes})


def beam(model, **changes) -> BeamSearch:
    settings = {"beam_size": 100, "n_best": 3, "symbols": model.symbols, "penalty": Average(1.0), "patience": math.inf}
    return BeamSearch(**{**settings, **changes})


@pytest.mark.parametrize("banks", [True, False])
def test_wide_beam_is_exact(banks):
    model = ScriptedModel(seed=11)
    found = beam(model, beam_size=300)(model, request(banks=banks))
    for b, hypotheses in enumerate(found):
        sentences = [s for s in model.all_sentences(MAX) if all(contains(s, p) for p in PHRASES[b])]
        truth = sorted(sentences, key=lambda s, b=b: -sum(model.log_probs(b, s)) / (len(s) + 1))[:3]
        assert [tuple(h.tokens) for h in hypotheses] == truth
        for h in hypotheses:
            assert h.piece_log_probs == pytest.approx(model.log_probs(b, tuple(h.tokens)), abs=1e-5)


def drawn(rng: random.Random, vocab: int) -> list[list[int]]:
    return [[rng.randrange(3, vocab) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(0, 3))]


@pytest.mark.parametrize("seed", range(4))
def test_always_there(seed):
    rng = random.Random(seed)
    model = ScriptedModel(vocab=8, seed=seed, scale=4.0)
    phrases = [drawn(rng, 8) for _ in range(8)]
    searches = [
        Walk(symbols=model.symbols, penalty=Average(1.0)),
        Walk(symbols=model.symbols, penalty=Average(1.0), pick=Draw(seed=seed), paths=3, n_best=3),
        *(beam(model, beam_size=size, n_best=size, patience=1.0) for size in (1, 2, 5)),
    ]
    never_x = ForbiddenTexts([[b"x"]] * 8, Spellings([b"", b"", b"", b"x", *[b"y"] * 4]))
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
    found = beam(model, beam_size=3)(model, request(phrases, 6, before=(ForcedPrefix(prefixes),)))
    for b, hypotheses in enumerate(found):
        for h in hypotheses:
            assert h.tokens[: len(prefixes[b])] == prefixes[b]
            assert all(contains(h.tokens, phrase) for phrase in phrases[b])


def test_banks_find_better_sentences_than_putting_it_off():
    total = {True: 0.0, False: 0.0}
    for seed in range(6):
        model = ScriptedModel(vocab=10, seed=seed, scale=3.0)
        phrases = [[[3 + b, 9 - b]] for b in range(6)]
        for banks in total:
            found = beam(model, beam_size=4, patience=1.0)(model, request(phrases, 9, banks=banks))
            total[banks] += sum(hypotheses[0].score for hypotheses in found)
    assert total[True] > total[False]


def test_what_is_missing():
    required = RequiredPhrases([[[3, 4, 5], [4, 6]]], [9], SYMBOLS)
    expected = {(): 5, (3,): 4, (3, 4): 3, (3, 4, 6): 3, (3, 4, 5): 2, (3, 4, 5, 4): 1, (4, 6, 3, 4, 5): 0, (4, 3): 4}
    for tokens, count in expected.items():
        prefixes = Prefixes(torch.tensor([tokens], dtype=torch.int64), torch.tensor([0]))
        assert required.missing(prefixes).tolist() == [count], tokens


def test_wanted_columns_come_once():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    top = Top(torch.tensor([[3.0, 2.0]]), torch.zeros(1, 2, dtype=torch.int64), torch.tensor([[3, 2]]))
    value, _, column = with_columns(top, logits, torch.tensor([[2, 0, 0, -1]]))
    assert column.tolist() == [[3, 2, 2, 0, 0, 0]]
    assert value.tolist() == [[3.0, 2.0, -math.inf, 0.0, -math.inf, -math.inf]]


def test_impossible_ones_are_refused():
    with pytest.raises(ValueError, match="phrases of 5 pieces in a sentence of 4"):
        RequiredPhrases([[[3, 4], [5, 5, 5]]], [4], SYMBOLS)
    with pytest.raises(ValueError, match="no pieces"):
        RequiredPhrases([[[]]], [4], SYMBOLS)
