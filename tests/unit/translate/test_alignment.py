"""Word alignment from attention."""

from __future__ import annotations

import numpy as np
import pytest

from mtkit.translate.alignment import Replacement, moved_pairs, word_links, words_of


def test_words_of_tokens():
    tokens = ["▁The", "▁d", "og", "▁", "▁s", "ees\u3000it", ".", "▁"]
    assert words_of(tokens) == [0, 1, 1, -1, 2, 2, 3, -1]


@pytest.mark.parametrize(
    ("src", "tgt", "attention", "expected"),
    [
        (["▁a", "▁b"], ["▁x", "▁y"], [[0.9, 0.1], [0.2, 0.8]], {(0, 0), (1, 1)}),
        (["▁a", "b"], ["▁x", "▁y", "z"], [[0.9, 0.1], [0.1, 0.2], [0.1, 0.8]], {(0, 0)}),  # half as much is no link
        (["▁a", "b"], ["▁x", "▁y", "z"], [[0.9, 0.1], [0.3, 0.5], [0.1, 0.8]], {(0, 0), (0, 1)}),
        # "b" gives up x to "a", since it has a better link; it keeps its only one
        (["▁a", "▁b"], ["▁x", "▁y"], [[0.4, 0.6], [0.2, 0.8]], {(0, 0), (1, 1)}),
        (["▁a", "▁b"], ["▁x"], [[0.4, 0.6]], {(0, 0), (1, 0)}),
        # the full stop is not "a", although it is written with it
        (["▁a", "."], ["▁x", "▁y", "."], [[0.8, 0.1], [0.1, 0.9], [0.0, 1.0]], {(0, 0)}),
        (["▁a", "▁."], ["▁x", "▁."], [[0.8, 0.1], [0.1, 0.9]], {(0, 0), (1, 1)}),  # a word of its own
        # a source word that no target word prefers
        (["▁fire", "▁man"], ["▁Feuer", "wehr"], [[0.6, 0.4], [0.5, 0.3]], {(0, 0), (1, 0)}),
        (["▁fire", "▁man"], ["▁Feuer", "wehr"], [[0.95, 0.05], [0.95, 0.05]], {(0, 0)}),
        (["▁a"], ["▁x"], [[0.0]], set()),
        ([], ["▁x"], [[]], set()),
    ],
)
def test_a_target_word_is_linked_to_the_source_word_that_it_attends_to(src, tgt, attention, expected):
    assert word_links([(0, 0, np.array(attention))], src, tgt) == expected


def test_words_of_several_segments_are_linked_in_each():
    one = np.array([[1.0]])
    assert word_links([(0, 0, one), (1, 2, one)], ["▁a", "▁b"], ["▁x", "▁", "▁y"]) == {(0, 0), (1, 1)}


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
