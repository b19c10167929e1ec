"""Constraints against every sentence tried, and always kept."""

from __future__ import annotations

import math

import pytest
import torch

from mtkit.search.beam.beam import BeamSearch
from mtkit.search.constraints.forbidden import ForbiddenTexts, Spellings
from mtkit.search.constraints.forced_prefix import ForcedPrefix
from mtkit.search.constraints.repeats import NoRepeatNgram, RepetitionPenalty
from mtkit.search.interface import Request
from mtkit.search.length_penalty import Average
from mtkit.search.single_path import Walk
from tests.unit.search.scripted import ScriptedModel

MAX, SENTENCES = 4, 6
PREFIXES = [[], [3], [4, 5], [5, 5, 5], [3, 4, 3, 4], []]
SPELLINGS = Spellings([b"", b"", b"", b"a", b"ab", "\u00e4b".encode()])
TEXTS = [[], [b"b"], [b"aa", b"bb"], [b"aba", "b\u00e4b\u00e4".encode()], ["\u00e4".encode()], [b"aab", b"abab"]]


def written(tokens) -> bytes:
    return b"".join(SPELLINGS.of_piece[token] for token in tokens)


def repeats(tokens, size: int) -> bool:
    grams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
    return len(grams) != len(set(grams))


CASES = [
    (NoRepeatNgram(1), lambda b, s: not repeats(s, 1)),
    (NoRepeatNgram(2), lambda b, s: not repeats(s, 2)),
    (ForcedPrefix(PREFIXES), lambda b, s: s[: len(PREFIXES[b])] == tuple(PREFIXES[b])),
    (ForbiddenTexts(TEXTS, SPELLINGS), lambda b, s: not any(text in written(s) for text in TEXTS[b])),
]


def request(**changes) -> Request:
    asked = Request.of(torch.arange(SENTENCES), torch.full((SENTENCES,), MAX))
    return Request(**{**vars(asked), **changes})


def beam(model, **changes) -> BeamSearch:
    settings = {"beam_size": 100, "n_best": 3, "symbols": model.symbols, "penalty": Average(1.0), "patience": math.inf}
    return BeamSearch(**{**settings, **changes})


@pytest.mark.parametrize(("constraint", "allowed"), CASES)
def test_constraints_are_exact(constraint, allowed):
    model = ScriptedModel(seed=11)
    found = beam(model)(model, request(constraints=(constraint,)))
    for b, hypotheses in enumerate(found):
        sentences = [s for s in model.all_sentences(MAX) if allowed(b, s)]
        truth = sorted(sentences, key=lambda s, b=b: -sum(model.log_probs(b, s)) / (len(s) + 1))[:3]
        assert [tuple(h.tokens) for h in hypotheses] == truth
        for h in hypotheses:
            assert h.piece_log_probs == pytest.approx(model.log_probs(b, tuple(h.tokens)), abs=1e-5)


def test_constraints_together_are_exact():
    model = ScriptedModel(seed=12)
    constraints, rules = zip(*CASES[1:], strict=True)
    found = beam(model)(model, request(constraints=constraints))
    for b, hypotheses in enumerate(found):
        sentences = [s for s in model.all_sentences(MAX) if all(rule(b, s) for rule in rules)]
        truth = sorted(sentences, key=lambda s, b=b: -sum(model.log_probs(b, s)) / (len(s) + 1))[:3]
        # where nothing is allowed there is still one hypothesis, marked as forced
        assert [tuple(h.tokens) for h in hypotheses if h.finished or truth] == truth
        assert hypotheses


@pytest.mark.parametrize("theta", [1.3, 4.0])
def test_repetition_penalty_is_exact_and_log_probs_stay_the_models_own(theta):
    model = ScriptedModel(seed=13)
    found = beam(model, constraints=(RepetitionPenalty(theta),))(model, request())

    def score(b, s) -> float:
        values = model.log_probs(b, s)
        raised = [v * theta if token in s[:i] else v for i, (v, token) in enumerate(zip(values, (*s, 0), strict=True))]
        return sum(raised) / (len(s) + 1)

    for b, hypotheses in enumerate(found):
        truth = sorted(model.all_sentences(MAX), key=lambda s, b=b: -score(b, s))[:3]
        assert [tuple(h.tokens) for h in hypotheses] == truth
        for h in hypotheses:
            assert h.score == pytest.approx(score(b, tuple(h.tokens)), abs=1e-5)
            assert h.log_prob == pytest.approx(sum(model.log_probs(b, tuple(h.tokens))), abs=1e-5)


@pytest.mark.parametrize(("constraint", "allowed"), CASES)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_narrow_searches_keep_constraints(constraint, allowed, beam_size):
    model = ScriptedModel(seed=14)
    narrow = beam(model, beam_size=beam_size, n_best=1, patience=1.0)
    walk = Walk(symbols=model.symbols, penalty=Average(1.0))
    for search in (narrow, walk):
        for b, hypotheses in enumerate(search(model, request(constraints=(constraint,)))):
            for h in hypotheses:
                assert allowed(b, tuple(h.tokens))
                assert h.piece_log_probs == pytest.approx(model.log_probs(b, tuple(h.tokens)), abs=1e-5)


def test_constraints_under_a_shortlist():
    model = ScriptedModel(vocab=8, seed=15)
    columns = torch.tensor([0, 3, 5, 7])
    found = beam(model, n_best=1)(model, request(constraints=(NoRepeatNgram(1),), columns=columns))

    def score(b, s) -> float:
        steps = [model._of(b, (1, *s[:t]))[0][columns].log_softmax(0) for t in range(len(s) + 1)]
        return sum(float(x[columns.tolist().index(y)]) for x, y in zip(steps, (*s, 0), strict=True)) / (len(s) + 1)

    allowed = [s for s in model.all_sentences(3) if set(s) <= {3, 5, 7} and not repeats(s, 1)]
    for b, (h,) in enumerate(found):
        assert tuple(h.tokens) == max(allowed, key=lambda s, b=b: score(b, s))


def test_what_constraints_alone_have_ended_is_not_finished():
    model = ScriptedModel(seed=14)
    only_once, early = NoRepeatNgram(1), Request(**{**vars(request()), "min_length": torch.full((SENTENCES,), MAX)})
    pieces = model.symbols.size - len({model.symbols.eos, *model.symbols.banned})
    assert pieces < MAX
    for search in (Walk(symbols=model.symbols, penalty=Average(1.0)), beam(model, beam_size=2, n_best=1)):
        for (hypothesis,) in search(model, Request(**{**vars(early), "constraints": (only_once,)})):
            assert (len(hypothesis.tokens), hypothesis.finished) == (pieces, False)


def test_an_empty_forbidden_text_is_refused():
    with pytest.raises(ValueError, match="no bytes"):
        ForbiddenTexts([[b""]], SPELLINGS)
