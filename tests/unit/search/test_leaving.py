"""Who takes the places of those that leave."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.search.compaction import closed_up, many, members


@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_all_others_stay_and_only_the_last_move(ended):
    done = torch.tensor(ended)
    order = closed_up(done).tolist()
    assert sorted(order) == [sentence for sentence, over in enumerate(ended) if not over]
    moved = [sentence for place, sentence in enumerate(order) if sentence != place]
    assert all(sentence >= len(order) for sentence in moved)  # those that can keep their place do


def test_a_few_wait():
    done = torch.zeros(65, dtype=torch.bool)
    assert not many(done)
    done[:2] = True
    assert not many(done)
    done[2] = True
    assert many(done)


def test_members_stay_together():
    assert members(torch.tensor([2, 0]), 3).tolist() == [6, 7, 8, 0, 1, 2]
