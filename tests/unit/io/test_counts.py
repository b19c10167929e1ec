"""Tests for mtkit/io/counts.py."""

from __future__ import annotations

import pytest

from mtkit.io.counts import count_of


@pytest.mark.parametrize(("number", "text"), [(0, "0 pairs"), (1, "1 pair"), (1234, "1,234 pairs")])
def test_nouns_agree_with_their_count(number: int, text: str) -> None:
    assert count_of(number, "pair") == text
