"""Queue of the texts that wait for a model: fair between clients, short before long, in batches.

Clients take turns by self-clocked fair queueing (Golestani 1994, https://doi.org/10.1109/INFCOM.1994.337677): each has
a virtual time, which advances by the characters that it is served, and the client with the earliest is next. A client
that was idle begins at the present time of the queue, so that it neither waits for the backlog of another nor saves up
time. Of the requests of one client that is next whose arrival plus a second for each SECOND_CHARACTERS is earliest:
short ones overtake long ones, and no request waits for ever.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SECOND_CHARACTERS = 1000
TEXT_COST = 20  # characters that a text costs beside its own
TURN = 600  # characters that a client is served in a turn, if its request has as many
SIMILAR = 3  # factor between the lengths of the requests that share a batch
SHORT = 120  # characters; shorter texts may share a batch in any case
MAX_LOOKED_AT = 64  # requests that are looked at for a batch


@dataclass(eq=False)
class QueuedRequest:
    """The texts of a request for one model.

    Attributes:
        client: whose turn it takes.
        options: of the translation; a batch has one kind of options.
        texts: (text, beginning of its translation), the shortest first when it is served.
        results: of each text, in order.
        done: set when all results are there, cancelled when the request is dropped.
        failures: of workers that had texts of the request.
        blamed: failures of workers that had nothing but this text, by its index.
    """

    client: str
    options: dict[str, Any]
    texts: Sequence[tuple[str, str]]
    results: list[Any] = field(init=False)
    done: asyncio.Future[None] = field(init=False)
    failures: int = 0
    blamed: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.key = repr(self.options)
        self.results = [None] * len(self.texts)
        self.done = asyncio.get_running_loop().create_future()
        self.remaining = len(self.texts)
        self.waiting = deque(sorted(range(len(self.texts)), key=self.cost))
        self.characters = sum(map(self.cost, self.waiting))

    def cost(self, index: int) -> int:
        """The characters of a text, and what it costs beside them."""
        return len(self.texts[index][0]) + TEXT_COST

    def accept(self, index: int, result: Any) -> None:
        """Take the result of a text."""
        self.results[index] = result
        self.remaining -= 1
        if not self.remaining and not self.done.done():
            self.done.set_result(None)


QueuedText = tuple[QueuedRequest, int]  # a request and the index of one of its texts


@dataclass
class _Client:
    """A client that has requests in the queue: its virtual time, and a heap of (urgency, number, request)."""

    time: float
    jobs: list[tuple[float, int, QueuedRequest]] = field(default_factory=list)


class FairQueue:
    """The requests that wait for one model.

    Attributes:
        waiting: characters of their texts.
        count: number of their texts.
    """

    def __init__(self) -> None:
        self.waiting = self.count = 0
        self._clients: dict[str, _Client] = {}
        self._order: list[tuple[float, int, str]] = []  # a heap of all clients
        self._clock = 0.0  # virtual time of the client that was served last
        self._number = itertools.count()
        self._changed = asyncio.Event()

    def add(self, job: QueuedRequest) -> None:
        """Take a request."""
        self._count(job, 1)
        self._push(job, time.monotonic() + job.characters / SECOND_CHARACTERS)

    def put_back(self, texts: Sequence[QueuedText]) -> None:
        """Take texts again that were lost with a worker; they are next, except those of dropped requests."""
        by_job: dict[QueuedRequest, list[int]] = {}
        for job, index in texts:
            if not job.done.cancelled():
                by_job.setdefault(job, []).append(index)
        for job, indices in by_job.items():
            is_queued = bool(job.waiting)
            self._count(job, -1)
            job.waiting.extendleft(reversed(indices))
            self._count(job, 1)
            if not is_queued:
                self._push(job, 0.0)
        self.wake()

    def remove(self, job: QueuedRequest) -> None:
        """Drop a request whose client has gone."""
        self._count(job, -1)
        job.waiting.clear()
        job.done.cancel()

    def wake(self) -> None:
        """Let all who wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self) -> None:
        """Wait until something has changed."""
        await self._changed.wait()

    def take(self, max_characters: int, max_texts: int) -> list[QueuedText]:
        """The next batch: texts with the same options, and of similar length; empty if nothing waits.

        A request that has lost a worker before has a batch of its own, and after the second time one for each text.
        """
        batch: list[QueuedText] = []
        passed: list[str] = []  # clients whose next request does not fit into the batch
        used = 0
        while self._order and used < max_characters and len(batch) < max_texts and len(passed) < MAX_LOOKED_AT:
            name = heapq.heappop(self._order)[2]
            client = self._clients[name]
            while client.jobs and not client.jobs[0][2].waiting:  # removed
                heapq.heappop(client.jobs)
            if not client.jobs:
                del self._clients[name]
                continue
            job = client.jobs[0][2]
            if not _fits(batch, job):
                passed.append(name)
                continue
            max_texts = 1 if job.failures > 1 else max_texts
            most = min(TURN if self._order else max_characters, max_characters - used)
            served = 0
            while job.waiting and len(batch) < max_texts:
                cost = job.cost(job.waiting[0])
                if served and served + cost > most:
                    break
                served += cost
                batch.append((job, job.waiting.popleft()))
                self.count -= 1
            self.waiting -= served
            self._clock = client.time
            client.time += served
            used += served
            heapq.heappush(self._order, (client.time, next(self._number), name))
        for name in passed:
            heapq.heappush(self._order, (self._clients[name].time, next(self._number), name))
        return batch

    def _push(self, job: QueuedRequest, urgency: float) -> None:
        if job.client not in self._clients:
            self._clients[job.client] = _Client(self._clock)
            heapq.heappush(self._order, (self._clock, next(self._number), job.client))
        heapq.heappush(self._clients[job.client].jobs, (urgency, next(self._number), job))
        self.wake()

    def _count(self, job: QueuedRequest, sign: int) -> None:
        self.count += sign * len(job.waiting)
        self.waiting += sign * sum(map(job.cost, job.waiting))


def _fits(batch: Sequence[QueuedText], job: QueuedRequest) -> bool:
    """Return whether the next text of a request may join a batch."""
    if not batch:
        return True
    first, last = batch[0][0], batch[-1][0]
    if job.key != first.key or (job is not first and (job.failures or first.failures)):
        return False
    costs = [each.cost(index) for each, index in ((job, job.waiting[0]), batch[0], batch[-1])]
    return job in (first, last) or max(costs) <= max(SHORT, SIMILAR * min(costs))
