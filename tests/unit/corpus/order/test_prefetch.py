import threading

import pytest

from mtkit.corpus.order.loader import prefetch


def thread_names():
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("prefetch")}


def test_items_keep_their_order_and_the_thread_ends():
    assert list(prefetch((number for number in range(20)), 3)) == list(range(20))
    assert not thread_names()


def test_items_are_computed_in_advance():
    computed = threading.Semaphore(0)

    def items():
        for number in range(10):
            computed.release()
            yield number

    stream = prefetch(items(), 3)
    assert next(stream) == 0
    for _ in range(4):  # the one returned, and three in the queue
        assert computed.acquire(timeout=5)
    assert not computed.acquire(timeout=0.05)
    stream.close()


def test_error_is_raised_at_its_position():
    def items():
        yield 1
        raise KeyError("here")

    stream = prefetch(items(), 5)
    assert next(stream) == 1
    with pytest.raises(KeyError, match="here"):
        next(stream)
    assert not thread_names()


def test_closing_closes_the_source_and_ends_the_thread():
    closed = []

    def items():
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    stream = prefetch(items(), 2)
    next(stream)
    stream.close()
    assert closed == [True]
    assert not thread_names()
