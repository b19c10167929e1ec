"""Constraints against exhaustive search; constraints hold in every search."""

from __future__ import annotations

import pytest
import torch

from mtkit.search.constraints import (
    ExcludedTexts,
    ForcedPrefix,
    NoRepeatNgram,
    TokenBytes,
)
from tests.unit.search.scripted import ScriptedModel, beam, request, single_path

MAX, SENTENCES = 4, 6
PREFIXES = [[], [3], [4, 5], [5, 5, 5], [3, 4, 3, 4], []]
TOKEN_BYTES = TokenBytes([b"", b"", b"", b"a", b"ab", "\u00e4b".encode()])
TEXTS = [[], [b"b"], [b"aa", b"bb"], [b"aba", "b\u00e4b\u00e4".encode()], ["\u00e4".encode()], [b"aab", b"abab"]]


def written(tokens) -> bytes:
    return b"".join(TOKEN_BYTES.of_token[token] for token in tokens)


def repeats(tokens, size: int) -> bool:
    grams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
    return len(grams) != len(set(grams))


CASES = [
    (NoRepeatNgram(1), lambda b, s: not repeats(s, 1)),
    (NoRepeatNgram(2), lambda b, s: not repeats(s, 2)),
    (ForcedPrefix(PREFIXES), lambda b, s: s[: len(PREFIXES[b])] == tuple(PREFIXES[b])),
    (ExcludedTexts(TEXTS, TOKEN_BYTES), lambda b, s: not any(text in written(s) for text in TEXTS[b])),
]


def asked(**changes):
    return request(list(range(SENTENCES)), MAX, **changes)


@pytest.mark.parametrize(("constraint", "allowed"), CASES)
def test_constraints_are_exact(constraint, allowed):
    model = ScriptedModel(seed=11)
    results = beam(model, n_best=3)(model, asked(constraints=(constraint,)))
    for b, hypotheses in enumerate(results):
        sentences = [s for s in model.all_sentences(MAX) if allowed(b, s)]
        truth = sorted(sentences, key=lambda s, b=b: -sum(model.log_probs(b, s)) / (len(s) + 1))[:3]
        assert [tuple(h.tokens) for h in hypotheses] == truth
        for h in hypotheses:
            assert h.token_log_probs == pytest.approx(model.log_probs(b, tuple(h.tokens)), abs=1e-5)


def test_constraints_together_are_exact():
    model = ScriptedModel(seed=12)
    constraints, rules = zip(*CASES[1:], strict=True)
    results = beam(model, n_best=3)(model, asked(constraints=constraints))
    for b, hypotheses in enumerate(results):
        sentences = [s for s in model.all_sentences(MAX) if all(rule(b, s) for rule in rules)]
        truth = sorted(sentences, key=lambda s, b=b: -sum(model.log_probs(b, s)) / (len(s) + 1))[:3]
        # where nothing is allowed there is still one hypothesis, marked as forced
        assert [tuple(h.tokens) for h in hypotheses if h.finished or truth] == truth
        assert hypotheses


@pytest.mark.parametrize("theta", [1.3, 4.0])
def test_repetition_penalty_is_exact_and_keeps_the_models_log_probs(theta):
    model = ScriptedModel(seed=13)
    results = beam(model, n_best=3, repetition_penalty=theta)(model, asked())

    def score(b, s) -> float:
        values = model.log_probs(b, s)
        raised = [v * theta if token in s[:i] else v for i, (v, token) in enumerate(zip(values, (*s, 0), strict=True))]
        return sum(raised) / (len(s) + 1)

    for b, hypotheses in enumerate(results):
        truth = sorted(model.all_sentences(MAX), key=lambda s, b=b: -score(b, s))[:3]
        assert [tuple(h.tokens) for h in hypotheses] == truth
        for h in hypotheses:
            assert h.score == pytest.approx(score(b, tuple(h.tokens)), abs=1e-5)
            assert h.log_prob == pytest.approx(sum(model.log_probs(b, tuple(h.tokens))), abs=1e-5)


@pytest.mark.parametrize(("constraint", "allowed"), CASES)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_small_beams_and_greedy_search_keep_constraints(constraint, allowed, beam_size):
    model = ScriptedModel(seed=14)
    narrow = beam(model, beam_size=beam_size, n_best=1, patience=1.0)
    greedy = single_path(model)
    for search in (narrow, greedy):
        for b, hypotheses in enumerate(search(model, asked(constraints=(constraint,)))):
            for h in hypotheses:
                assert allowed(b, tuple(h.tokens))
                assert h.token_log_probs == pytest.approx(model.log_probs(b, tuple(h.tokens)), abs=1e-5)


def test_end_that_is_forced_by_constraints_is_not_finished():
    model = ScriptedModel(seed=14)
    no_token_twice = NoRepeatNgram(1)
    num_tokens = model.special_ids.vocab_size - len({model.special_ids.eos, *model.special_ids.banned})
    assert num_tokens < MAX
    constrained = asked(min_length=torch.full((SENTENCES,), MAX), constraints=(no_token_twice,))
    for search in (single_path(model), beam(model, beam_size=2, n_best=1)):
        for (hypothesis,) in search(model, constrained):
            assert (len(hypothesis.tokens), hypothesis.finished) == (num_tokens, False)


def test_empty_forbidden_text_is_refused():
    with pytest.raises(ValueError, match="no bytes"):
        ExcludedTexts([[b""]], TOKEN_BYTES)
