"""Detection of loops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.translate.repair import MIN_REPEATS, has_loop, max_repeats


@pytest.mark.parametrize(
    ("tokens", "source", "loop"),
    [
        ([7] * 12, [1, 2, 3], True),
        ([7, 8, 9] * 4, [1, 2, 3], True),
        ([1, 2, *([7, 8, 9] * 5), 4], [1, 2, 3], True),
        ([7, 8, 9] * 3, [1, 2, 3], False),
        ([7] * 12, [5] * 12, False),
        ([7, 8, 9] * 8, [4, 5, 6] * 4, False),
        ([7, 8, 9] * 9, [4, 5, 6] * 4, True),  # over twice as often as in the source
        ([], [], False),
        (list(range(100)), [1], False),
    ],
)
def test_has_loop(tokens, source, loop):
    assert has_loop(tokens, source) == loop


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(4, 7), min_size=1, max_size=5), st.integers(1, 8))
def test_fast_check_misses_no_loop(before, ngram, repeats):
    tokens = before + ngram * repeats
    assert has_loop(tokens, []) == (max_repeats(tokens) >= MIN_REPEATS)
