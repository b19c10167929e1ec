"""Shallow fusion against enumeration and a loop over two tables of log-probabilities."""

from __future__ import annotations

import pytest
import torch

from mtkit.search.ensemble import LanguageModelTerm, ShallowFusion
from mtkit.search.length_penalty import Average
from tests.unit.search.scripted import BOS, EOS, PAD, ScriptedModel, beam, request, single_path

WEIGHT = 0.7
TRANSLATION, LANGUAGE = ScriptedModel(vocab=6, seed=31), ScriptedModel(vocab=6, seed=32)
FUSION = ShallowFusion(TRANSLATION, LANGUAGE, lambda count: torch.zeros(count, dtype=torch.int64))


def fused(sentences: list[int], max_length: int, weight: float = WEIGHT, **changes):
    return request(sentences, max_length, constraints=(LanguageModelTerm(weight),), **changes)


def language(tokens: tuple[int, ...]) -> float:
    """The language model reads no source: sentence 0 of its table."""
    return sum(LANGUAGE.log_probs(0, tokens))


def total(sentence: int, tokens: tuple[int, ...]) -> float:
    return sum(TRANSLATION.log_probs(sentence, tokens)) + WEIGHT * language(tokens)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_wide_beam_finds_the_best_sum_of_both_models(alpha: float) -> None:
    search = beam(TRANSLATION, n_best=3, length_penalty=Average(alpha=alpha))
    for sentence, hypotheses in enumerate(search(FUSION, fused(list(range(4)), 3))):
        ranked = sorted(TRANSLATION.all_sentences(3), key=lambda s, n=sentence: -total(n, s) / (len(s) + 1) ** alpha)
        assert [tuple(h.tokens) for h in hypotheses] == ranked[:3]
        for h in hypotheses:
            tokens = tuple(h.tokens)
            assert h.score == pytest.approx(total(sentence, tokens) / (len(tokens) + 1) ** alpha, abs=1e-5)
            assert h.token_log_probs == pytest.approx(TRANSLATION.log_probs(sentence, tokens), abs=1e-5)
    plain = [h.tokens for (h, *_) in search(TRANSLATION, request(list(range(4)), 3))]
    assert plain != [h.tokens for (h, *_) in search(FUSION, fused(list(range(4)), 3))]


def test_greedy_search_is_a_loop_over_the_sums() -> None:
    results = single_path(TRANSLATION)(FUSION, fused(list(range(12)), 5))
    for sentence, (h,) in enumerate(results):
        tokens: tuple[int, ...] = ()
        while len(tokens) < 5:
            ours, theirs = TRANSLATION.lookup(sentence, (BOS, *tokens)), LANGUAGE.lookup(0, (BOS, *tokens))
            sums = ours[0].double().log_softmax(0) + WEIGHT * theirs[0].double().log_softmax(0)
            sums[[BOS, PAD]] = -torch.inf
            if int(sums.argmax()) == EOS:
                break
            tokens = (*tokens, int(sums.argmax()))
        assert tuple(h.tokens) == tokens
        assert h.log_prob == pytest.approx(sum(TRANSLATION.log_probs(sentence, tokens)), abs=1e-5)


def test_weight_0_changes_nothing_and_a_narrow_beam_keeps_both_states_together() -> None:
    sentences = list(range(40))  # finished ones leave the batch in both models
    search = beam(TRANSLATION, beam_size=3, n_best=3, patience=1.0)
    alone, with_zero = search(TRANSLATION, request(sentences, 6)), search(FUSION, fused(sentences, 6, weight=0.0))
    assert [[h.tokens for h in each] for each in alone] == [[h.tokens for h in each] for each in with_zero]
    for sentence, hypotheses in enumerate(search(FUSION, fused(sentences, 6))):
        for h in hypotheses:
            assert h.score == pytest.approx(total(sentence, tuple(h.tokens)) / (len(h.tokens) + 1), abs=1e-5)


def test_the_term_without_a_language_model_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the steps of ShallowFusion"):
        beam(TRANSLATION)(TRANSLATION, fused([0], 3))
