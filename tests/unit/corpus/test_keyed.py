from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.corpus.order.hash_rng import _mix, keyed, keyed_array, permute, shuffled, unit

KEYS = st.integers(0, 2**64 - 1)


@given(size=st.integers(1, 3000), key=KEYS)
def test_permutation_reaches_every_number_once(size, key):
    assert sorted(permute(np.arange(size), size, key)) == list(range(size))


@given(size=st.integers(1, 2**40), key=KEYS, data=st.data())
def test_a_place_does_not_depend_on_what_else_is_asked(size, key, data):
    places = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20))
    together = permute(np.array(places), size, key)
    assert list(together) == [permute(np.array([place]), size, key)[0] for place in places]
    assert together.min() >= 0
    assert together.max() < size


def test_all_orders_of_four_are_equally_likely():
    orders = Counter(tuple(permute(np.arange(4), 4, key)) for key in range(480))
    assert len(orders) == 24
    assert sum((count - 20) ** 2 / 20 for count in orders.values()) < 49.7  # chi-square, 23 degrees, p = 0.001


def test_permutation_of_many_leaves_no_pattern():
    size = 50_000
    sent = permute(np.arange(size), size, 7)
    assert abs(np.corrcoef(np.arange(size), sent)[0, 1]) < 0.02
    assert abs(np.corrcoef(sent[:-1], sent[1:])[0, 1]) < 0.02
    assert np.mean(sent == permute(np.arange(size), size, 8)) < 0.001


@pytest.mark.parametrize("numbers", [(1, 2), (2, 1), (1,), (1, 2, 0), (0, 1, 2)])
def test_keyed_tells_sequences_apart(numbers):
    assert keyed(*numbers) != keyed(1, 2, 3)
    assert 0 <= keyed(*numbers) < 2**64
    assert keyed(*numbers) == keyed(*numbers)


def test_keyed_is_the_same_on_every_machine():
    assert _mix(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF  # what SplitMix64 seeded with 0 gives first (splitmix64.c)
    assert keyed_array(0, np.array([0]))[0] == keyed_array(0, np.array([0], dtype=np.int32))[0]


@given(count=st.integers(0, 500), key=KEYS)
def test_shuffled_holds_every_number_once(count, key):
    assert sorted(shuffled(count, key)) == list(range(count))


def test_unit_is_even_between_0_and_1():
    values = unit(keyed_array(3, np.arange(10_000)))
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert unit(2**64 - 1) < 1
