import numpy as np
import pytest
import torch

from mtkit.corpus.order.collate import collate, collate_source
from mtkit.errors import DataError
from mtkit.text.vocab import Vocab

VOCAB = Vocab(size=20, pad=0, unk=1, bos=2, eos=3)


def test_batch_has_bos_in_front_and_eos_behind():
    batch = collate([[5, 6, 7], [8]], [[9], [10, 11]], [41, 40], VOCAB, VOCAB)
    assert batch.source.ids.tolist() == [[5, 6, 7, 3], [8, 3, 0, 0]]
    assert batch.source.real.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.source.pos.tolist() == [[0, 1, 2, 3]] * 2
    assert batch.target.ids.tolist() == [[2, 9, 0], [2, 10, 11]]
    assert batch.labels.tolist() == [[9, 3, 0], [10, 11, 3]]
    assert batch.target.real.tolist() == batch.scored.tolist() == [[True, True, False], [True, True, True]]
    assert batch.samples.tolist() == [41, 40]
    assert batch.labels.dtype == batch.source.ids.dtype == batch.target.pos.dtype == torch.int64


def test_empty_batch_has_no_sentences_but_a_width():
    batch = collate([], [], [], VOCAB, VOCAB)
    assert batch.num_sentences == 0
    assert batch.source.ids.shape == batch.labels.shape == batch.target.pos.shape == (0, 1)


def test_a_blank_source_is_an_eos():
    assert collate_source([[], [4]], VOCAB).ids.tolist() == [[3, 0], [4, 3]]


def test_faults_of_the_caller_are_named():
    with pytest.raises(ValueError, match="1 sources, 2 targets and 1 sample numbers"):
        collate([[4]], [[4], [5]], np.array([0]), VOCAB, VOCAB)
    with pytest.raises(DataError, match=r"piece 20 is outside a vocabulary of 20: .* made with another tokenizer"):
        collate_source([[20]], VOCAB)
