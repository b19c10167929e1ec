"""Every search says for which sentences the model computed NaN or infinity, and for no others."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from mtkit.search.config import DiverseBeamConfig, SamplingConfig
from mtkit.search.ensemble import Ensemble
from tests.unit.search.scripted import ScriptedModel, beam, request, search_settings, single_path

VOCAB = 130  # as many as `top_k` divides into blocks
NEGATIVE_NAN = torch.tensor(-4194304, dtype=torch.int32).view(torch.float32)  # what processors give for inf - inf


class BrokenModel(ScriptedModel):
    """Fails for one sentence after `length` tokens, in all columns or in one."""

    def __init__(self, value, *, column=None, sentence=3, length=1) -> None:
        super().__init__(vocab=VOCAB, seed=4)
        self.broken = sentence, length, column, value

    def lookup(self, sentence, history):
        logits, attention = super().lookup(sentence, history)
        broken, length, column, value = self.broken
        if sentence == broken and len(history) == length + 1:
            logits = logits.clone()
            logits[slice(None) if column is None else column] = value
        return logits, attention


SEARCHES = {
    "greedy": lambda model: single_path(model, with_log_probs=False),
    "greedy with log-probabilities": lambda model: single_path(model),
    "greedy with constraints": lambda model: single_path(model, with_log_probs=False, no_repeat_ngram=2),
    "sampling": lambda model: single_path(model, choose=SamplingConfig(seed=2).chooser(), with_log_probs=False),
    "three samples": lambda model: single_path(model, choose=SamplingConfig(seed=2, top_p=0.9).chooser(), num_paths=3),
    "beam": lambda model: beam(model, beam_size=4, n_best=2, patience=1.0),
    "beam with constraints": lambda model: beam(model, beam_size=4, n_best=2, patience=1.0, no_repeat_ngram=2),
    "beam with coverage": lambda model: beam(
        model, beam_size=4, n_best=2, patience=1.0, coverage_penalty=0.2, with_attention=True
    ),
    "diverse": lambda model: DiverseBeamConfig(groups=2).build(search_settings(model, beam_size=4, n_best=2)),
}
VALUES = [math.nan, NEGATIVE_NAN, math.inf, -math.inf]


def sentences_that_failed(search, model) -> list[int]:
    asked = request(list(range(6)), 7, real=torch.ones(6, 3, dtype=torch.bool))
    found = search(model)(model, asked)
    healthy = ScriptedModel(vocab=VOCAB, seed=4)
    expected = search(healthy)(healthy, asked)
    failed = [i for i, hypotheses in enumerate(found) if any(h.failed for h in hypotheses)]
    for i in set(range(6)) - set(failed):
        assert [h.tokens for h in found[i]] == [h.tokens for h in expected[i]]
    return failed


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("length", [0, 2])
def test_a_sentence_whose_logits_are_not_finite_fails_and_no_other(name, value, length) -> None:
    if value == -math.inf and name in ("greedy", "sampling"):
        pytest.skip("no column at all: the end is forced, as by constraints")
    assert sentences_that_failed(SEARCHES[name], BrokenModel(value, length=length)) == [3]


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("column", [0, 3, VOCAB - 1])  # the end of sentence, and two tokens of text
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_one_column_is_enough(name, column, value) -> None:
    assert sentences_that_failed(SEARCHES[name], BrokenModel(value, column=column, length=0)) == [3]


@pytest.mark.parametrize("name", SEARCHES)
def test_a_healthy_model_does_not_fail(name) -> None:
    assert sentences_that_failed(SEARCHES[name], ScriptedModel(vocab=VOCAB, seed=4)) == []


@pytest.mark.parametrize("name", SEARCHES)
def test_one_member_of_an_ensemble_is_enough(name) -> None:
    members = [ScriptedModel(vocab=VOCAB, seed=9), BrokenModel(math.nan, length=0)]
    ensemble = Ensemble(members)
    search = SEARCHES[name](members[0])
    found = search(ensemble, request(list(range(6)), 7, real=torch.ones(6, 3, dtype=torch.bool)))
    assert [i for i, hypotheses in enumerate(found) if any(h.failed for h in hypotheses)] == [3]


@pytest.mark.whole
@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(("length", "expected"), [(1, [3]), (4, [])])
def test_what_the_model_computes_for_a_sentence_that_is_done_does_not_matter(name, length, expected) -> None:
    model = BrokenModel(math.nan, length=length)
    sentences = list(range(70))  # so many that the batch keeps a sentence that is done
    max_length = torch.full((70,), 7)
    max_length[3] = 2
    real = torch.ones(70, 3, dtype=torch.bool)
    found = SEARCHES[name](model)(model, replace(request(sentences, 7, real=real), max_length=max_length))
    assert [i for i, hypotheses in enumerate(found) if any(h.failed for h in hypotheses)] == expected
