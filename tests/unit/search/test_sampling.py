"""Sampling: frequencies against the distribution, independence of the batch."""

from __future__ import annotations

import collections
import math

import pytest
import torch

from mtkit.search.config import SamplingConfig
from mtkit.search.hypothesis import SpecialIds
from mtkit.search.length_penalty import Average
from mtkit.search.single_path import SampleKey, Sampling
from tests.unit.search.scripted import ScriptedModel, request, single_path


def frequencies(sampling: Sampling, logits: torch.Tensor, count: int) -> torch.Tensor:
    key = SampleKey(torch.arange(count), torch.zeros(count, dtype=torch.int64), 3)
    return torch.bincount(sampling(logits.expand(count, -1), key)[0], minlength=logits.numel())


def chi_square(observed: torch.Tensor, prob: torch.Tensor) -> tuple[float, int]:
    possible = prob > 0
    assert observed[~possible].sum() == 0
    expected = prob[possible].double() * observed.sum()
    return float(((observed[possible] - expected) ** 2 / expected).sum()), int(possible.sum()) - 1


LOGITS = torch.tensor([1.0, 0.2, -1.0, 2.0, 0.0, -2.0, 1.5, -math.inf])
P = LOGITS.softmax(0)
TRUTH = [
    (SamplingConfig().chooser(), P),
    (SamplingConfig(temperature=0.5).chooser(), (LOGITS / 0.5).softmax(0)),
    (SamplingConfig(top_k=3).chooser(), torch.where(torch.tensor([1, 0, 0, 1, 0, 0, 1, 0]).bool(), P, 0.0)),
    (SamplingConfig(top_p=0.6).chooser(), torch.where(torch.tensor([0, 0, 0, 1, 0, 0, 1, 0]).bool(), P, 0.0)),
    (SamplingConfig(epsilon=0.05).chooser(), torch.where(P >= 0.05, P, 0.0)),
    (SamplingConfig(seed=77).chooser(), P),
]


@pytest.mark.parametrize(("sampling", "truth"), TRUTH)
def test_frequencies_are_those_of_the_distribution(sampling, truth):
    value, freedom = chi_square(frequencies(sampling, LOGITS, 20_000), truth / truth.sum())
    assert value < freedom + 4 * math.sqrt(2 * freedom) + 4  # four standard deviations


def test_sampled_sentences_have_the_distribution_of_the_model():
    model = ScriptedModel(vocab=5, seed=7, scale=1.0)
    model.special_ids = SpecialIds(vocab_size=5, bos=1, eos=0)  # nothing banned: the model's own distribution
    search = single_path(model, length_penalty=Average(alpha=0.0), choose=SamplingConfig().chooser(), num_paths=3000)
    (samples,) = search(model, request([0], 1))
    counts = collections.Counter(tuple(h.tokens) for h in samples)
    first = model.lookup(0, (1,))[0].softmax(0)
    observed = torch.tensor([counts[()], *(counts[(token,)] for token in range(1, 5))])
    value, freedom = chi_square(observed, first)
    assert value < freedom + 4 * math.sqrt(2 * freedom) + 4
    for h in samples[:20]:
        assert h.token_log_probs == pytest.approx(model.log_probs(0, tuple(h.tokens)), abs=1e-5)


def test_samples_depend_on_the_sentence_id_alone():
    model = ScriptedModel(vocab=9, seed=8)
    search = single_path(model, choose=SamplingConfig(seed=5).chooser(), num_paths=3)
    ids = torch.arange(100, 120)
    together = search(model, request(list(range(20)), 6, sentence_ids=ids))
    for sentence in range(20):
        (alone,) = search(model, request([sentence], 6, sentence_ids=ids[sentence : sentence + 1]))
        assert [h.tokens for h in alone] == [h.tokens for h in together[sentence]]
    other = search(model, request(list(range(20)), 6, sentence_ids=ids + 1000))
    assert [h[0].tokens for h in other] != [h[0].tokens for h in together]
