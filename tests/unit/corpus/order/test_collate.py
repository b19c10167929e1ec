import numpy as np
import pytest
import torch

from mtkit.corpus.order.batch import collate, collate_source
from mtkit.errors import DataError
from mtkit.text.vocab import Vocab

VOCAB = Vocab(size=20, pad=0, unk=1, bos=2, eos=3)


def test_decoder_input_starts_with_bos_and_labels_end_with_eos():
    batch = collate([[5, 6, 7], [8]], [[9], [10, 11]], [41, 40], VOCAB, VOCAB)
    assert batch.source.ids.tolist() == [[5, 6, 7, 3], [8, 3, 0, 0]]
    assert batch.source.real.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.source.pos.tolist() == [[0, 1, 2, 3]] * 2
    assert batch.target.ids.tolist() == [[2, 9, 0], [2, 10, 11]]
    assert batch.labels.tolist() == [[9, 3, 0], [10, 11, 3]]
    assert batch.target.real.tolist() == batch.loss_mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.sample_ids.tolist() == [41, 40]
    assert batch.labels.dtype == batch.source.ids.dtype == batch.target.pos.dtype == torch.int64


def test_empty_batch_has_width_1():
    batch = collate([], [], [], VOCAB, VOCAB)
    assert batch.num_sentences == 0
    assert batch.source.ids.shape == batch.labels.shape == batch.target.pos.shape == (0, 1)


def test_blank_source_is_eos():
    assert collate_source([[], [4]], VOCAB).ids.tolist() == [[3, 0], [4, 3]]


def test_invalid_arguments_are_rejected():
    with pytest.raises(ValueError, match="1 sources, 2 targets and 1 sample ids"):
        collate([[4]], [[4], [5]], np.array([0]), VOCAB, VOCAB)
    with pytest.raises(DataError, match=r"token id 20 is outside a vocabulary of 20: .* built with another tokenizer"):
        collate_source([[20]], VOCAB)
