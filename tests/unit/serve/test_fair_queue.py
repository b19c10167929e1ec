"""Queue of the server: fairness between clients, short before long, batches, requests that come back or go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mtkit.serve.fair_queue import FairQueue, QueuedRequest


def in_loop(function: Callable[[], Any]) -> Any:
    async def run() -> Any:
        return function()

    return asyncio.run(run())


def request(client: str, *lengths: int, options: dict[str, Any] | None = None) -> QueuedRequest:
    return QueuedRequest(client, options or {}, [("x" * length, "") for length in lengths])


def order(queue: FairQueue, max_characters: int = 600, max_texts: int = 8) -> list[list[str]]:
    """The clients of the texts of each batch, until the queue is empty."""
    batches = []
    while batch := queue.take(max_characters, max_texts):
        batches.append([each.client for each, _ in batch])
    return batches


def test_a_client_with_a_backlog_does_not_hold_up_another() -> None:
    def run() -> list[list[str]]:
        queue = FairQueue()
        queue.add(request("many", *[480] * 50))
        first = queue.take(600, 8)
        queue.add(request("one", 480))
        return [[each.client for each, _ in first], *order(queue)[:3]]

    batches = in_loop(run)
    assert set(batches[0]) == {"many"}
    assert "one" in batches[1] + batches[2]


def test_clients_get_equal_shares() -> None:
    def run() -> list[str]:
        queue = FairQueue()
        for client in "abc":
            queue.add(request(client, *[280] * 40))
        return [client for batch in order(queue) for client in batch]

    served = in_loop(run)
    for count in range(12, 120, 12):
        shares = [served[:count].count(client) for client in "abc"]
        assert max(shares) - min(shares) <= 4  # two turns


def test_short_requests_of_a_client_overtake_long_ones() -> None:
    def run() -> list[int]:
        queue = FairQueue()
        queue.add(request("a", *[500] * 100))
        queue.add(request("a", 30))
        return [len(each.texts) for each, _ in queue.take(600, 8)]

    assert in_loop(run)[0] == 1


def test_a_batch_has_one_kind_of_options_and_similar_lengths() -> None:
    def run() -> list[list[str]]:
        queue = FairQueue()
        queue.add(request("a", 20, options={"n_best": 1}))
        queue.add(request("b", 20, options={"n_best": 2}))
        queue.add(request("c", 25, options={"n_best": 1}))
        queue.add(request("d", 5000, options={"n_best": 1}))
        return order(queue, 100_000)

    assert in_loop(run) == [["a", "c"], ["b"], ["d"]]


def test_texts_of_other_requests_are_at_most_three_times_as_long() -> None:
    def run(length: int) -> list[list[str]]:
        queue = FairQueue()
        queue.add(request("a", 480))
        queue.add(request("b", length))
        return order(queue, 100_000)

    assert in_loop(lambda: run(1400)) == [["a", "b"]]
    assert in_loop(lambda: run(1700)) == [["a"], ["b"]]


def test_all_texts_come_once_whatever_the_order_of_events() -> None:
    def run() -> tuple[int, int, bool]:
        queue = FairQueue()
        requests = [request("abc"[number % 3], *range(1, 40, 1 + number % 7)) for number in range(30)]
        for number, each in enumerate(requests):
            queue.add(each)
            batch = queue.take(700, 5)
            if number % 4 == 0:  # a lost worker
                for lost, _ in batch:
                    lost.failures = 1
                queue.put_back(batch)
                batch = []
            for one, index in batch:
                assert one.results[index] is None
                one.accept(index, "done")
        while batch := queue.take(700, 5):
            for one, index in batch:
                assert one.results[index] is None
                one.accept(index, "done")
        return queue.count, queue.waiting, all(each.done.done() for each in requests)

    assert in_loop(run) == (0, 0, True)


def test_what_lost_a_worker_is_alone_in_its_batch() -> None:
    def run() -> list[list[str]]:
        queue = FairQueue()
        queue.add(request("bad", 20, 20))
        batch = queue.take(600, 8)
        for each in {one for one, _ in batch}:
            each.failures = 2
        queue.put_back(batch)
        queue.add(request("good", 20))
        return order(queue)

    assert sorted(in_loop(run)) == [["bad"], ["bad"], ["good"]]


def test_a_request_that_is_removed_takes_no_worker() -> None:
    def run() -> tuple[list[list[str]], int]:
        queue = FairQueue()
        gone = request("a", 20, 30)
        queue.add(gone)
        queue.remove(gone)
        queue.add(request("b", 20))
        return order(queue), queue.waiting

    assert in_loop(run) == ([["b"]], 0)
