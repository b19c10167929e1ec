from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.corpus.order.hash_rng import hash_array, hash_seed, permute, shuffle, splitmix64, uniform01

KEYS = st.integers(0, 2**64 - 1)


@given(size=st.integers(1, 3000), key=KEYS)
def test_permute_is_a_permutation(size, key):
    assert sorted(permute(np.arange(size), size, key)) == list(range(size))


@given(size=st.integers(1, 2**40), key=KEYS, data=st.data())
def test_permute_is_elementwise(size, key, data):
    numbers = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20))
    together = permute(np.array(numbers), size, key)
    assert list(together) == [permute(np.array([number]), size, key)[0] for number in numbers]
    assert together.min() >= 0
    assert together.max() < size


@pytest.mark.whole
def test_all_orders_of_four_are_equally_likely():
    orders = Counter(tuple(permute(np.arange(4), 4, key)) for key in range(480))
    assert len(orders) == 24
    assert sum((count - 20) ** 2 / 20 for count in orders.values()) < 49.7  # chi-square, 23 degrees, p = 0.001


def test_large_permutation_is_uncorrelated():
    size = 50_000
    images = permute(np.arange(size), size, 7)
    assert abs(np.corrcoef(np.arange(size), images)[0, 1]) < 0.02
    assert abs(np.corrcoef(images[:-1], images[1:])[0, 1]) < 0.02
    assert np.mean(images == permute(np.arange(size), size, 8)) < 0.001


@pytest.mark.parametrize("numbers", [(1, 2), (2, 1), (1,), (1, 2, 0), (0, 1, 2)])
def test_hash_seed_distinguishes_sequences(numbers):
    assert hash_seed(*numbers) != hash_seed(1, 2, 3)
    assert 0 <= hash_seed(*numbers) < 2**64
    assert hash_seed(*numbers) == hash_seed(*numbers)


def test_hashes_are_the_same_on_every_machine():
    assert (
        splitmix64(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    )  # first output of SplitMix64 seeded with 0 (splitmix64.c)
    assert hash_array(0, np.array([0]))[0] == hash_array(0, np.array([0], dtype=np.int32))[0]


@given(count=st.integers(0, 500), key=KEYS)
def test_shuffle_is_a_permutation(count, key):
    assert sorted(shuffle(count, key)) == list(range(count))


def test_uniform01_is_uniform():
    values = uniform01(hash_array(3, np.arange(10_000)))
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert uniform01(2**64 - 1) < 1
