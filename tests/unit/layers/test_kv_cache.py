"""Key/value cache: appending, selecting and compacting rows."""

from __future__ import annotations

import pytest
import torch

from mtkit.layers.cache import MIN_KEYS, KVCache
from mtkit.layers.softmax import full

ROWS, G, S, K = 6, 2, 3, 4


def cache() -> KVCache:
    k, v = torch.arange(2 * ROWS * G * S * K, dtype=torch.float32).view(2, ROWS, G, S, K)
    pos = torch.arange(ROWS * S).view(ROWS, S)
    return KVCache.of(k.clone(), v.clone(), pos, pos % 5 > 0)


def append(past: KVCache, value: float) -> KVCache:
    """Append one token to each row, all of whose numbers are `value` in the keys and -`value` in the values."""
    rows = past.pos.size(0)
    k = torch.full((rows, past.k.size(1), 1, past.k.size(3)), value)
    return past.append(KVCache.of(k, -k, torch.full((rows, 1), past.length), None))


@pytest.mark.parametrize("sentences", [[0, 5, 2, 4], [5], [], [2, 0, 1, 5, 4, 3], [0, 1, 2], [3, 3, 3, 3, 3, 3, 3, 1]])
def test_compact_equals_index_select(sentences):
    index = torch.tensor(sentences, dtype=torch.int64)
    expected, found = cache().index_select(index), cache().compact_(index, ROWS)
    for one, other in ((found.k, expected.k), (found.v, expected.v), (found.pos, expected.pos)):
        assert torch.equal(one, other)
    assert isinstance(found.real, torch.Tensor)
    assert isinstance(expected.real, torch.Tensor)
    assert torch.equal(found.real, expected.real)
    new = torch.full((len(sentences), G, 1, K), -1.0)
    longer = found.append(KVCache.of(new, new, torch.full((len(sentences), 1), 9), None))
    assert torch.equal(longer.k, torch.cat([expected.k, new], dim=2))


def test_compact_moves_the_rows_of_a_sentence_together_within_the_same_memory():
    pair = cache()
    compacted = pair.compact_(torch.tensor([0, 2]), 3)
    assert torch.equal(compacted.k, cache().k[[0, 1, 4, 5]])
    assert compacted.k.data_ptr() == pair.k.data_ptr()
    assert not torch.equal(pair.k, cache().k)  # which is why it must not be used any more


def test_a_cache_does_not_change_when_two_continuations_write_into_its_buffer():
    empty = KVCache.empty(2, 1, 3, torch.device("cpu"))
    stem = append(append(empty, 1.0), 2.0)
    one, other = append(append(stem, 3.0), 4.0), append(stem, 5.0)
    assert empty.length == 0
    assert stem.k[0, 0, :, 0].tolist() == [1, 2]
    assert one.k[0, 0, :, 0].tolist() == [1, 2, 3, 4]
    assert other.k[0, 0, :, 0].tolist() == [1, 2, 5]
    assert other.v[1, 0, :, 0].tolist() == [-1, -2, -5]
    assert one.pos.tolist() == [[0, 1, 2, 3]] * 2


def test_selected_rows_grow_independently():
    k = torch.arange(2.0).view(2, 1, 1, 1).expand(2, 1, 1, 3)
    cache = KVCache.of(k, k, torch.zeros(2, 1, dtype=torch.int64), None)
    swapped = cache.index_select(torch.tensor([1, 0, 1]))
    longer = append(swapped, 9.0)
    assert longer.k[:, 0, :, 0].tolist() == [[1, 9], [0, 9], [1, 9]]
    assert swapped.length == 1


@pytest.mark.usefixtures("forgotten_memory_is_nan")
@pytest.mark.parametrize("length", [1, 2, 7, MIN_KEYS - 1, MIN_KEYS, MIN_KEYS + 3])
@pytest.mark.parametrize(("heads", "queries"), [(G, 1), (2 * G, 1), (2 * G, 30)])
def test_products_run_over_the_tokens_alone(length, heads, queries):
    """Whatever the spare capacity, the padding and the number of heads that share a key."""
    generator = torch.Generator().manual_seed(length)
    k, v = torch.randn(2, ROWS, G, length, K, generator=generator)
    grown = KVCache.empty(ROWS, G, K, torch.device("cpu"))
    for t in range(length):
        grown = grown.append(KVCache.of(k[:, :, t : t + 1], v[:, :, t : t + 1], torch.full((ROWS, 1), t), None))
    q = torch.randn(ROWS, heads, queries, K, generator=generator)
    k, v = (x.repeat_interleave(heads // G, dim=1) for x in (k, v))  # [ROWS, H, S, K]
    torch.testing.assert_close(grown.scores(q), q @ k.mT)
    weights = grown.scores(q).softmax(-1)
    torch.testing.assert_close(grown.weighted_sum(weights), weights @ v)


def test_concat_pads_shorter_parts():
    parts = [cache(), cache().last(2)]
    pos = torch.arange(S).expand(2 * ROWS, -1)
    real = torch.ones(2 * ROWS, S, dtype=torch.bool)
    whole = KVCache.concat(parts, pos, real)
    assert torch.equal(whole.k[:ROWS], parts[0].k)
    assert torch.equal(whole.v[ROWS:, :, :2], parts[1].v)
    assert whole.k[ROWS:, :, 2:].eq(0).all()
    assert torch.equal(whole.visible(full, pos), real[:, None, None, :])
