"""How many rows are looked at together changes nothing."""

from __future__ import annotations

import pytest
import torch

from mtkit.search.beam.beam import BeamSearch
from mtkit.search.beam.diverse import Diverse
from mtkit.search.constraints.forced_prefix import ForcedPrefix
from mtkit.search.constraints.repeats import NoRepeatNgram
from mtkit.search.interface import Request
from mtkit.search.length_penalty import Average
from mtkit.search.sampling import Draw
from mtkit.search.single_path import Walk
from tests.unit.search.scripted import ScriptedModel

MODEL = ScriptedModel(vocab=9, seed=11)
COMMON = {"symbols": MODEL.symbols, "penalty": Average(1.0)}
SEARCHES = {
    "greedy": Walk(**COMMON),
    "greedy without log-probabilities": Walk(**COMMON, with_log_probs=False),
    "sampling": Walk(**COMMON, pick=Draw(seed=3), paths=3, n_best=3),
    "greedy, constrained": Walk(**COMMON, constraints=(NoRepeatNgram(2),)),
    "beam": BeamSearch(**COMMON, beam_size=4, n_best=4),
    "beam, constrained": BeamSearch(**COMMON, beam_size=4, n_best=4, constraints=(NoRepeatNgram(2),)),
    "diverse": BeamSearch(**COMMON, beam_size=4, n_best=4, selection=Diverse(groups=2, strength=0.7)),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
@pytest.mark.parametrize("prefixes", [[], [[3], [], [5, 4], [8]]], ids=["free", "begun"])
def test_rows_are_chosen_for_alone(search, prefixes, monkeypatch):
    asked = Request.of(torch.arange(4), torch.tensor([7, 5, 7, 6]))
    asked = Request(**{**vars(asked), "constraints": (ForcedPrefix(prefixes),) if prefixes else ()})
    found = []
    for rows in (1, 3, 64):
        monkeypatch.setattr("mtkit.search.fast_topk.ROWS_AT_ONCE", rows)
        found.append([[(h.tokens, h.finished, str(h.score)) for h in best] for best in search(MODEL, asked)])
    assert found[0] == found[1] == found[2]
    assert len({str(best) for best in found[0]}) == 4
