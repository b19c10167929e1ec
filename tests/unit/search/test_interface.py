"""Batch compaction and row chunks do not change what a search finds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.search.beam_state import DiverseBeam
from mtkit.search.config import SamplingConfig
from mtkit.search.constraints import ForcedPrefix
from mtkit.search.interface import COMPACT_FRACTION, SearchRequest, SearchRun, compaction_order
from tests.unit.search.scripted import ScriptedModel, beam, request, search_settings, single_path

MODEL = ScriptedModel(vocab=9, seed=11)
SEARCHES = {
    "greedy": single_path(MODEL),
    "greedy without log-probabilities": single_path(MODEL, with_log_probs=False),
    "sampling": single_path(MODEL, choose=SamplingConfig(seed=3).chooser(), num_paths=3),
    "greedy, constrained": single_path(MODEL, no_repeat_ngram=2),
    "beam": beam(MODEL, beam_size=4, n_best=4, patience=1.0),
    "beam, constrained": beam(MODEL, beam_size=4, n_best=4, patience=1.0, no_repeat_ngram=2),
    "diverse": beam(MODEL, beam_size=4, n_best=4, patience=1.0, selector=DiverseBeam(groups=2, diversity_strength=0.7)),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
@pytest.mark.parametrize("prefixes", [[], [[3], [], [5, 4], [8]]], ids=["free", "with prefix"])
def test_row_chunks_change_nothing(search, prefixes, monkeypatch):
    plain = SearchRequest.of(torch.arange(4), torch.tensor([7, 5, 7, 6]))
    with_prefix = SearchRequest(**{**vars(plain), "constraints": (ForcedPrefix(prefixes),) if prefixes else ()})
    results = []
    for rows in (1, 3, 64):
        monkeypatch.setattr("mtkit.search.fast_topk.CHUNK_ROWS", rows)
        results.append([[(h.tokens, h.finished, str(h.score)) for h in best] for best in search(MODEL, with_prefix)])
    assert results[0] == results[1] == results[2]
    assert len({str(best) for best in results[0]}) == 4


@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_compaction_keeps_the_other_sentences_and_moves_only_the_last(flags):
    finished = torch.tensor(flags)
    order = compaction_order(finished)
    if order is None:
        assert sum(flags) * COMPACT_FRACTION < len(flags)
        return
    assert sorted(order.tolist()) == [sentence for sentence, flag in enumerate(flags) if not flag]
    moved = [sentence for index, sentence in enumerate(order.tolist()) if sentence != index]
    assert all(sentence >= order.numel() for sentence in moved)  # sentences that can keep their position do


def test_compaction_waits_until_enough_sentences_are_finished():
    finished = torch.zeros(65, dtype=torch.bool)
    assert compaction_order(finished) is None
    finished[:2] = True
    assert compaction_order(finished) is None
    finished[2] = True
    assert compaction_order(finished).tolist() == [62, 63, 64, *range(3, 62)]


def test_beams_of_a_sentence_stay_together():
    run = SearchRun(search_settings(MODEL), MODEL, request([0, 1, 2], 4), beams_per_sentence=3)
    assert run.beams_of(torch.tensor([2, 0])).tolist() == [6, 7, 8, 0, 1, 2]
