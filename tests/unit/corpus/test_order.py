from collections import Counter

import numpy as np
import pytest

from mtkit.corpus.order.order import Order


def drawn(window):
    return list(zip(window.corpus.tolist(), window.sample.tolist(), strict=True))


def every_sample(sizes):
    return {(corpus, sample): 1 for corpus, size in enumerate(sizes) for sample in range(size)}


@pytest.mark.parametrize("bound", [7, 10, 64, 1000])
@pytest.mark.parametrize("sizes", [(100,), (33, 1, 66)])
def test_every_sample_once_an_epoch(sizes, bound):
    order = Order(sizes, seed=1, bound=bound)
    for epoch in range(3):
        windows = [order.window(epoch * order.windows_per_epoch + part) for part in range(order.windows_per_epoch)]
        assert Counter(pair for window in windows for pair in drawn(window)) == every_sample(sizes)
        assert all(len(window) <= bound for window in windows)
        assert max(map(len, windows)) - min(map(len, windows)) <= 1
        assert {int(turn) for window in windows for turn in window.turn} == {epoch}


def test_epochs_and_seeds_differ():
    order = Order((500,), seed=1)
    assert drawn(order.window(0)) != drawn(order.window(1))
    assert drawn(order.window(0)) != drawn(Order((500,), seed=2).window(0))


@pytest.mark.parametrize("weights", [None, (1.0, 3.0)])
def test_a_window_depends_on_its_number_only(weights):
    sizes = (50, 200)
    asked_in_turn = [drawn(Order(sizes, 3, weights, 40).window(number)) for number in range(12)]
    order = Order(sizes, 3, weights, 40)
    assert [drawn(order.window(number)) for number in reversed(range(12))] == asked_in_turn[::-1]


def test_weights_are_the_shares_of_samples():
    order = Order((1000, 30), seed=1, weights=(1, 3), bound=100)
    counts = Counter(corpus for number in range(8) for corpus, _ in drawn(order.window(number)))
    assert counts == {0: 200, 1: 600}


def test_a_mixed_corpus_repeats_only_after_all_of_it():
    order = Order((1000, 30), seed=1, weights=(1, 3), bound=100)
    windows = [order.window(number) for number in range(8)]
    seen = Counter(
        (int(sample), int(turn))
        for window in windows
        for corpus, sample, turn in zip(window.corpus, window.sample, window.turn, strict=True)
        if corpus == 1
    )
    assert seen == {(sample, turn): 1 for sample in range(30) for turn in range(20)}


def test_a_far_window_of_a_huge_corpus_costs_nothing():
    order = Order((3_000_000_000, 5), seed=1, weights=(0.999, 0.001))
    window = order.window(1_000_000)
    assert np.bincount(window.corpus).tolist() == pytest.approx([65471, 65], abs=2)
    assert len(Order((3_000_000_000,), seed=1).window(1_000_000)) > 60_000


@pytest.mark.parametrize(
    ("sizes", "weights", "words"),
    [((), None, "must have samples"), ((3, 0), None, "must have samples"), ((3,), (1.0, 2.0), "2 weights for 1"),
     ((3,), (0.0,), "positive")],
)  # fmt: skip
def test_faults_of_the_caller_are_named(sizes, weights, words):
    with pytest.raises(ValueError, match=words):
        Order(sizes, 1, weights)
