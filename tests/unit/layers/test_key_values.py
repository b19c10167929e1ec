"""Rows that stay when others leave."""

from __future__ import annotations

import pytest
import torch

from mtkit.layers.cache.kv_cache import KeyValues

ROWS, G, S, K = 6, 2, 3, 4


def key_values() -> KeyValues:
    k, v = torch.arange(2 * ROWS * G * S * K, dtype=torch.float32).view(2, ROWS, G, S, K)
    pos = torch.arange(ROWS * S).view(ROWS, S)
    return KeyValues.of(k.clone(), v.clone(), pos, pos % 5 > 0)


@pytest.mark.parametrize("sentences", [[0, 5, 2, 4], [5], [], [2, 0, 1, 5, 4, 3], [0, 1, 2], [3, 3, 3, 3, 3, 3, 3, 1]])
def test_kept_rows_are_those_that_were_asked_for(sentences):
    index = torch.tensor(sentences, dtype=torch.int64)
    expected, found = key_values().select(index), key_values().keep(index, ROWS)
    for one, other in ((found.k, expected.k), (found.v, expected.v), (found.pos, expected.pos)):
        assert torch.equal(one, other)
    assert isinstance(found.real, torch.Tensor)
    assert isinstance(expected.real, torch.Tensor)
    assert torch.equal(found.real, expected.real)
    new = torch.full((len(sentences), G, 1, K), -1.0)
    longer = found.append(new, new, torch.full((len(sentences), 1), 9))
    assert torch.equal(longer.k, torch.cat([expected.k, new], dim=2))


def test_rows_of_a_sentence_move_together_and_others_are_not_copied():
    pair = key_values()
    kept = pair.keep(torch.tensor([0, 2]), 3)
    assert torch.equal(kept.k, key_values().k[[0, 1, 4, 5]])
    assert kept.k.data_ptr() == pair.k.data_ptr()
