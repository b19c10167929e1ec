import threading

import pytest

from mtkit.corpus.order.prefetch import ahead


def names():
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("ahead")}


def test_same_items_in_order_and_the_thread_ends():
    assert list(ahead((number for number in range(20)), 3)) == list(range(20))
    assert not names()


def test_items_are_made_before_they_are_asked_for():
    made = threading.Semaphore(0)

    def items():
        for number in range(10):
            made.release()
            yield number

    stream = ahead(items(), 3)
    assert next(stream) == 0
    for _ in range(4):  # the one taken, and three that wait
        assert made.acquire(timeout=5)
    assert not made.acquire(timeout=0.05)
    stream.close()


def test_an_error_comes_when_its_turn_comes():
    def items():
        yield 1
        raise KeyError("here")

    stream = ahead(items(), 5)
    assert next(stream) == 1
    with pytest.raises(KeyError, match="here"):
        next(stream)
    assert not names()


def test_closing_closes_the_source_and_ends_the_thread():
    closed = []

    def items():
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    stream = ahead(items(), 2)
    next(stream)
    stream.close()
    assert closed == [True]
    assert not names()
