"""Diverse beam search against a slow and obvious version."""

from __future__ import annotations

import collections

import pytest

from mtkit.search.beam_state import DiverseBeam
from tests.unit.search.scripted import ScriptedModel, beam, request

MAX = 5


def slow_groups(model, sentence: int, groups: int, width: int, strength: float) -> list[list[tuple[float, tuple]]]:
    """Every group has its own live and finished hypotheses; nothing is batched and no group ends early."""
    live = [[(0.0, ())] for _ in range(groups)]
    finished: list[list[tuple[float, tuple]]] = [[] for _ in range(groups)]
    for length in range(MAX + 1):
        used: collections.Counter = collections.Counter()
        for g in range(groups):
            options, ends = [], []
            for total, tokens in live[g]:
                log_prob = model.lookup(sentence, (1, *tokens))[0].double().log_softmax(0)
                ends.append((total + float(log_prob[0]), tokens))
                if length < MAX:
                    options += [(total + float(log_prob[v]), (*tokens, v)) for v in range(3, model.vocab)]
            options.sort(key=lambda o: -(o[0] - strength * used[o[1][-1]]))
            options = options[:width]
            for total, tokens in ends:
                better = sum(o[0] > total for o in options) + sum(e[0] > total for e in ends)
                if better < width:
                    finished[g].append((total / (len(tokens) + 1), tokens))
            live[g] = options
            used.update(tokens[-1] for _, tokens in options)
    return [sorted(hypotheses, reverse=True) for hypotheses in finished]


@pytest.mark.parametrize("strength", [0.0, 0.7, 3.0])
@pytest.mark.parametrize(("groups", "width"), [(2, 2), (3, 1), (3, 2)])
def test_diverse_groups_are_those_of_the_slow_version(strength, groups, width):
    model, size = ScriptedModel(vocab=7, seed=21), groups * width
    diverse = DiverseBeam(groups=groups, diversity_strength=strength)
    search = beam(model, beam_size=size, n_best=size, selector=diverse)
    for sentence, hypotheses in enumerate(search(model, request(list(range(8)), MAX))):
        slow = [group[:width] for group in slow_groups(model, sentence, groups, width, strength)]
        truth = sorted({entry for group in slow for entry in group}, reverse=True)[:size]
        assert [tuple(h.tokens) for h in hypotheses] == [tokens for _, tokens in truth]
        assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in truth], abs=1e-5)
