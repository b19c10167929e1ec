import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mtkit.corpus.order.ragged import Ragged

ROWS = st.lists(st.lists(st.integers(0, 60_000), max_size=6), max_size=8)


@given(rows=ROWS, data=st.data())
def test_take_selects_rows_in_any_order(rows, data):
    packed = Ragged.of(rows)
    assert [list(packed[row]) for row in range(len(packed))] == rows
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9)) if rows else []
    taken = packed.take(np.array(indices, dtype=np.int64))
    assert [list(taken[row]) for row in range(len(taken))] == [rows[row] for row in indices]


@given(rows=ROWS, before=st.sampled_from([None, 7]), after=st.sampled_from([None, 8]))
def test_padded_equals_a_loop(rows, before, after):
    full = [[7] * (before is not None) + row + [8] * (after is not None) for row in rows]
    width = max(map(len, full), default=(before is not None) + (after is not None))
    expected = [row + [0] * (width - len(row)) for row in full]
    padded = Ragged.of(rows).padded(pad=0, before=before, after=after)
    assert padded.shape == (len(rows), width)
    assert padded.tolist() == expected


@given(parts=st.lists(ROWS, min_size=1, max_size=3))
def test_concat_keeps_rows(parts):
    whole = Ragged.concat([Ragged.of(part) for part in parts])
    assert [list(whole[row]) for row in range(len(whole))] == [row for part in parts for row in part]


@given(st.lists(st.lists(st.integers(0, 99), max_size=9), max_size=6), st.lists(st.integers(0, 99), max_size=4))
def test_the_same_ids_before_every_row(rows, ids):
    longer = Ragged.of(rows).with_first(ids)
    assert [row.tolist() for row in longer] == [[*ids, *row] for row in rows]
    assert [row.tolist() for row in longer.without_first(len(ids))] == rows
