"""Word alignment from attention."""

from __future__ import annotations

import numpy as np

from mtkit.translate.alignment import links_of, word_pairs, words_of


def test_words_of_tokens():
    tokens = ["▁The", "▁d", "og", "▁", "▁s", "ees\u3000it", ".", "▁"]
    assert words_of(tokens) == [0, 1, 1, -1, 2, 2, 3, -1]


def test_word_pairs_follow_the_largest_attention():
    attention = np.array([[0.9, 0.1, 0.0], [0.1, 0.2, 0.7], [0.1, 0.8, 0.1]])
    links = links_of(attention, 2)
    assert links == [(0, 0), (1, 1), (1, 2)]
    assert word_pairs(links, ["▁a", "b"], ["▁x", "▁y", "z"]) == ((0, 0), (0, 1))
    assert links_of(attention, 0) == []
