"""Word alignment from attention."""

from __future__ import annotations

import numpy as np
import pytest

from mtkit.translate.alignment import Replacement, links_of, moved_pairs, word_pairs, words_of


def test_words_of_tokens():
    tokens = ["▁The", "▁d", "og", "▁", "▁s", "ees\u3000it", ".", "▁"]
    assert words_of(tokens) == [0, 1, 1, -1, 2, 2, 3, -1]


def test_word_pairs_follow_the_largest_attention():
    attention = np.array([[0.9, 0.1, 0.0], [0.1, 0.2, 0.7], [0.1, 0.8, 0.1]])
    links = links_of(attention, 2)
    assert links == [(0, 0), (1, 1), (1, 2)]
    assert word_pairs(links, ["▁a", "b"], ["▁x", "▁y", "z"]) == ((0, 0), (0, 1))
    assert links_of(attention, 0) == []


@pytest.mark.parametrize(
    ("before", "after", "replacements", "links"),
    [
        ("a bb c", "a x y z c", [(2, "bb", "x y z")], {0: [0], 1: [1, 2, 3], 2: [4]}),
        ("a bb cc d", "a x d", [(2, "bb cc", "x")], {0: [0], 1: [1], 2: [1], 3: [2]}),
        ("a b. c", "a x y. c", [(2, "b", "x y")], {0: [0], 1: [1, 2], 2: [3]}),  # a part of a word
        ("a b c d", "u v b w d", [(0, "a", "u v"), (4, "c", "w")], {0: [0, 1], 1: [2], 2: [3], 3: [4]}),
        ("a b c", "a c", [(2, "b ", "")], {0: [0], 1: [], 2: [1]}),
    ],
)
def test_links_follow_words_that_are_replaced(before, after, replacements, links):
    pairs = [(word, word) for word in range(len(before.split()))]
    expected = tuple((s, t) for s, targets in links.items() for t in targets)
    assert moved_pairs(pairs, after, [Replacement(*each) for each in replacements]) == expected
