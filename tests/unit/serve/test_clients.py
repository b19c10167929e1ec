"""Clients of a server: keys that are guessed are slowed, keys that are right are not."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest

from mtkit.serve import clients as module
from mtkit.serve.clients import FREE_GUESSES, GUESS_SECONDS, MAX_GUESS_WAIT, Clients, RequestError
from tests.toy.sampling import seeds

SEEDS = seeds(20, 200)


class Clock:
    """A clock that goes on only where somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.slept = 0.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=self.sleep))

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


def status(clients: Clients, key: str | None, address: str) -> int:
    try:
        asyncio.run(clients.admit(key, address))
    except RequestError as error:
        return error.status
    return 200


@pytest.mark.whole
@pytest.mark.parametrize("seed", SEEDS)
def test_guesses_of_an_address_are_one_a_second(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng, clock = random.Random(seed), Clock(monkeypatch)
    clients = Clients(["right-key-1", "right-key-2"], None)
    assert status(clients, "right-key-1", "home") == 200
    begun, tried = clock.now, 0
    for _ in range(300):
        if rng.random() < 0.3:
            clock.now += rng.random()
        result = status(clients, f"wrong-{rng.random()}", "home")
        tried += result == 403
        assert result in (403, 429)
        assert status(clients, None, "home") == 403  # no key is no guess
    assert FREE_GUESSES <= tried <= FREE_GUESSES + (clock.now - begun) / GUESS_SECONDS + 1
    slept = clock.slept
    assert status(clients, "right-key-1", "home") == 200  # known here
    assert status(clients, "right-key-2", "elsewhere") == 200
    assert clock.slept == slept
    assert status(clients, "right-key-2", "home") == 200  # waits for its turn
    assert clock.slept - slept <= MAX_GUESS_WAIT


def test_guesses_at_once_are_refused_beyond_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients(["right-key-1"], None)

    async def run() -> list[int]:
        async def guess(number: int) -> int:
            try:
                await clients.admit(f"wrong-{number}", "home")
            except RequestError as error:
                return error.status
            return 200

        monkeypatch.setattr(module, "GUESS_SECONDS", 0.01)
        monkeypatch.setattr(module, "MAX_GUESS_WAIT", 0.05)
        return await asyncio.gather(*map(guess, range(200)))

    statuses = asyncio.run(run())
    assert set(statuses) == {403, 429}
    assert statuses.count(403) <= FREE_GUESSES + 10


def test_right_keys_are_never_slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    clients = Clients([f"right-key-{number}" for number in range(500)], None)
    assert {status(clients, f"right-key-{number}", "home") for number in range(500)} == {200}
    assert clock.slept == 0


@pytest.mark.parametrize("max_requests", [1, 3, 50, 700])
def test_a_client_that_waits_as_long_as_it_is_told_is_admitted(
    monkeypatch: pytest.MonkeyPatch, max_requests: int
) -> None:
    clock, clients = Clock(monkeypatch), Clients(None, max_requests)
    assert [status(clients, None, "home") for _ in range(max_requests + 1)] == [200] * max_requests + [429]
    for _ in range(5):
        clock.now += 0.37 * 60 / max_requests
        while status(clients, None, "home") == 200:
            pass
        with pytest.raises(RequestError) as refused:
            asyncio.run(clients.admit(None, "home"))
        assert refused.value.retry_after is not None
        clock.now += refused.value.retry_after
        assert status(clients, None, "home") == 200


def test_some_guesses_come_at_once_and_then_one_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, clients = Clock(monkeypatch), Clients(["right-key-1"], None)
    slept = []
    for number in range(FREE_GUESSES + 3):
        assert status(clients, f"wrong-{number}", "home") == 403
        slept.append(clock.slept)
    assert slept == pytest.approx([*[0.0] * FREE_GUESSES, *(number * GUESS_SECONDS for number in (1, 2, 3))])
