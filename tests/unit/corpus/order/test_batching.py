import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.corpus.order.order import padded_tokens, plan_updates, split_by_token_budget

LENGTHS = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=200)


@given(lengths=LENGTHS, budget=st.integers(50, 400), micro=st.integers(1, 5), key=st.integers(0, 2**64 - 1))
def test_every_row_once_within_the_budget(lengths, budget, micro, key):
    src, tgt = (np.array(side) for side in zip(*lengths, strict=True))
    updates = plan_updates(src, tgt, batch_tokens=budget, micro_batches=micro, key=key)
    batches = [batch for update in updates for batch in update]
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    assert all(len(batch) * max(src[batch].max(), tgt[batch].max()) <= budget for batch in batches)
    sizes = [len(update) for update in updates]
    assert max(sizes) <= micro
    assert min(sizes) >= max(1, max(sizes) - 1)
    again = plan_updates(src, tgt, batch_tokens=budget, micro_batches=micro, key=key)
    assert all(np.array_equal(a, b) for x, y in zip(updates, again, strict=True) for a, b in zip(x, y, strict=True))


def test_keys_change_grouping_and_order():
    rng = np.random.default_rng(0)
    src, tgt = rng.integers(5, 30, 2000), rng.integers(5, 30, 2000)
    first, second = (
        {tuple(sorted(batch)) for [batch] in plan_updates(src, tgt, batch_tokens=500, micro_batches=1, key=key)}
        for key in (1, 2)
    )
    assert len(first & second) < len(first) / 2


def test_micro_batches_fill_the_budget():
    assert split_by_token_budget(np.array([5, 5, 5, 4, 2, 2]), 10) == [(0, 2), (2, 4), (4, 6)]
    assert split_by_token_budget(np.array([5, 5, 5, 4, 2, 2]), 10, first_share=0.5) == [(0, 1), (1, 3), (3, 5), (5, 6)]
    assert split_by_token_budget(np.array([50, 3]), 10) == [(0, 1), (1, 2)]
    assert split_by_token_budget(np.array([], dtype=np.int64), 10) == []


def test_a_sentence_beyond_the_budget_is_rejected():
    with pytest.raises(ValueError, match="a sentence of 12 tokens exceeds the budget of 11"):
        plan_updates(np.array([3]), np.array([12]), batch_tokens=11, micro_batches=1, key=0)


def test_padding_is_counted_on_both_sides():
    assert padded_tokens(np.array([3, 5]), np.array([7, 2])) == 2 * 5 + 2 * 7
