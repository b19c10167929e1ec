"""The largest micro-batch that fits is found from two small ones."""

import gc
from functools import partial

import pytest
import torch

from mtkit.corpus.order.dummy_batch import made_up_batch
from mtkit.errors import TrainingError
from mtkit.text.vocab import Vocab
from mtkit.training.learner import build_learner
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.robustness import batch_size_search as probe
from tests.unit.training.toy_training import VOCAB, TeacherForced, ToyModel, toy_config

PIECES = Vocab(size=VOCAB, pad=0, unk=1, bos=2, eos=3)
MAKE = partial(made_up_batch, src=PIECES, tgt=PIECES)
LONGEST = 8


def learner():
    torch.manual_seed(1)
    return build_learner(ToyModel(), CrossEntropy(TeacherForced(), 0.1), config=toy_config())


def found(monkeypatch, memory, processes=1):
    monkeypatch.setattr(probe, "free_memory", lambda device: memory)
    return probe.largest_batch(learner(), LONGEST, MAKE, processes=processes)


def test_live_tensors_are_counted_and_forgotten():
    gc.collect()
    with probe.LiveTensors() as live:
        a = torch.ones(1000)
        b = a.view(10, 100) + 1
        assert live.peak == 8000
        del a, b
        torch.ones(500)
        assert live.peak == 8000


def test_what_is_found_fills_the_memory(monkeypatch):
    limit = 1_000_000
    places = found(monkeypatch, int(limit / probe.SHARE["cpu"]))
    state = probe.STATE * sum(p.numel() for p in learner().model.parameters())
    needed = probe.peak(learner(), MAKE(places // LONGEST, LONGEST)) + state
    assert places % probe.ROUND == 0
    assert needed == pytest.approx(limit, rel=0.05)  # which tensors live at the peak changes a little with size


def test_memory_is_shared_and_there_is_a_cap(monkeypatch):
    alone = found(monkeypatch, 3_000_000)
    assert found(monkeypatch, 6_000_000, processes=2) == alone
    assert found(monkeypatch, 10**12) == probe.MOST["cpu"]


def test_when_nothing_fits_it_says_so(monkeypatch):
    with pytest.raises(TrainingError, match=r"a sentence of 8 tokens alone needs 0\.0 GB of the 0\.0 GB .*; lower"):
        found(monkeypatch, 1000)
