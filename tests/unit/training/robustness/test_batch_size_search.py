"""Search for the largest micro-batch that fits, from two small ones."""

import gc
from functools import partial

import pytest
import torch

from mtkit.corpus.order.batch import dummy_batch
from mtkit.errors import ComputeError
from mtkit.text.vocab import Vocab
from mtkit.training import memory
from mtkit.training.learner import build_learner
from mtkit.training.objectives.cross_entropy import CrossEntropy
from tests.toy.training import VOCAB, TeacherForced, ToyModel, toy_config

VOCAB_IDS = Vocab(size=VOCAB, pad=0, unk=1, bos=2, eos=3)
MAKE_BATCH = partial(dummy_batch, src=VOCAB_IDS, tgt=VOCAB_IDS)
MAX_LENGTH = 8


def learner():
    torch.manual_seed(1)
    return build_learner(ToyModel(), CrossEntropy(TeacherForced(), 0.1), config=toy_config())


def search(monkeypatch, free_bytes, processes=1):
    monkeypatch.setattr(memory, "free_memory", lambda device: free_bytes)
    return memory.find_max_batch_tokens(learner(), MAX_LENGTH, MAKE_BATCH, num_processes=processes)


def test_the_tracker_counts_live_tensors_only():
    gc.collect()
    with memory.TensorMemoryTracker() as tracker:
        a = torch.ones(1000)
        b = a.view(10, 100) + 1
        assert tracker.peak_bytes == 8000
        del a, b
        torch.ones(500)
        assert tracker.peak_bytes == 8000


def test_the_result_fills_the_memory(monkeypatch):
    limit = 1_000_000
    batch_tokens = search(monkeypatch, int(limit / memory.MEMORY_FRACTION["cpu"]))
    state = memory.STATE_BYTES * sum(p.numel() for p in learner().model.parameters())
    batch = MAKE_BATCH(batch_tokens // MAX_LENGTH, MAX_LENGTH)
    needed = memory.measure_peak_bytes(learner(), batch) + state
    assert batch_tokens % memory.MULTIPLE_OF == 0
    assert needed == pytest.approx(limit, rel=0.05)  # the set of tensors that are live at the peak varies with size


def test_processes_share_the_memory_and_there_is_a_maximum(monkeypatch):
    alone = search(monkeypatch, 3_000_000)
    assert search(monkeypatch, 6_000_000, processes=2) == alone
    assert search(monkeypatch, 10**12) == memory.MAX_TOKENS["cpu"]


def test_too_little_memory_for_one_sentence_is_an_error(monkeypatch):
    with pytest.raises(ComputeError, match=r"a single sentence of 8 tokens needs 0\.0 GB of the 0\.0 GB .*; lower"):
        search(monkeypatch, 1000)
