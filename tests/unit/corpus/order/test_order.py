from collections import Counter

import numpy as np
import pytest

from mtkit.corpus.order.order import DataOrder


def samples_of(window):
    return list(zip(window.corpus.tolist(), window.sample.tolist(), strict=True))


def every_sample(sizes):
    return {(corpus, sample): 1 for corpus, size in enumerate(sizes) for sample in range(size)}


@pytest.mark.parametrize("bound", [7, 10, 64, 1000])
@pytest.mark.parametrize("sizes", [(100,), (33, 1, 66)])
def test_every_sample_once_an_epoch(sizes, bound):
    order = DataOrder(sizes, seed=1, window_size=bound)
    for epoch in range(3):
        windows = [order.window(epoch * order.windows_per_epoch + part) for part in range(order.windows_per_epoch)]
        assert Counter(pair for window in windows for pair in samples_of(window)) == every_sample(sizes)
        assert all(len(window) <= bound for window in windows)
        assert max(map(len, windows)) - min(map(len, windows)) <= 1
        assert {int(turn) for window in windows for turn in window.epoch} == {epoch}


def test_epochs_and_seeds_differ():
    order = DataOrder((500,), seed=1)
    assert samples_of(order.window(0)) != samples_of(order.window(1))
    assert samples_of(order.window(0)) != samples_of(DataOrder((500,), seed=2).window(0))


@pytest.mark.parametrize("weights", [None, (1.0, 3.0)])
def test_windows_are_independent_of_the_order_of_calls(weights):
    sizes = (50, 200)
    in_order = [samples_of(DataOrder(sizes, 3, weights, 40).window(number)) for number in range(12)]
    order = DataOrder(sizes, 3, weights, 40)
    assert [samples_of(order.window(number)) for number in reversed(range(12))] == in_order[::-1]


def test_weights_are_the_shares_of_samples():
    order = DataOrder((1000, 30), seed=1, weights=(1, 3), window_size=100)
    counts = Counter(corpus for number in range(8) for corpus, _ in samples_of(order.window(number)))
    assert counts == {0: 200, 1: 600}


def test_a_corpus_of_a_mixture_repeats_only_after_a_full_epoch():
    order = DataOrder((1000, 30), seed=1, weights=(1, 3), window_size=100)
    windows = [order.window(number) for number in range(8)]
    seen = Counter(
        (int(sample), int(epoch))
        for window in windows
        for corpus, sample, epoch in zip(window.corpus, window.sample, window.epoch, strict=True)
        if corpus == 1
    )
    assert seen == {(sample, epoch): 1 for sample in range(30) for epoch in range(20)}


def test_a_distant_window_of_a_huge_corpus_is_cheap():
    order = DataOrder((3_000_000_000, 5), seed=1, weights=(0.999, 0.001))
    window = order.window(1_000_000)
    assert np.bincount(window.corpus).tolist() == pytest.approx([65471, 65], abs=2)
    assert len(DataOrder((3_000_000_000,), seed=1).window(1_000_000)) > 60_000


@pytest.mark.parametrize(
    ("sizes", "weights", "message"),
    [((), None, "must have samples"), ((3, 0), None, "must have samples"), ((3,), (1.0, 2.0), "2 weights for 1"),
     ((3,), (0.0,), "positive")],
)  # fmt: skip
def test_invalid_arguments_are_rejected(sizes, weights, message):
    with pytest.raises(ValueError, match=message):
        DataOrder(sizes, 1, weights)
