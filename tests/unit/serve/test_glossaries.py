"""Glossaries of clients: none takes the place of all, and reading them is no work of the loop."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mtkit.serve.clients import RequestError
from mtkit.serve.core import Direction
from mtkit.serve.fronts import requests
from mtkit.serve.fronts.deepl import Glossaries
from mtkit.serve.fronts.requests import RequestFields
from mtkit.translate.glossary import Glossary
from tests.toy.sampling import seeds


def test_a_client_has_its_share_of_glossaries(monkeypatch: pytest.MonkeyPatch) -> None:
    async def create(glossaries: Glossaries, client: str) -> None:
        fields = {"name": "n", "source_lang": "en", "target_lang": "de", "entries": "dog\tHund" + "x" * 80}
        await glossaries.create(RequestFields(fields), client)

    async def run() -> list[int]:
        service = SimpleNamespace(find_direction=lambda source, target: Direction(source, target))
        glossaries, counts = Glossaries(cast(Any, service)), []
        for client in ("one", "two", "three", "four", "five"):
            for count in range(1001):
                try:
                    await create(glossaries, client)
                except RequestError:
                    counts.append(count)
                    break
        return counts

    assert asyncio.run(run()) == [250, 250, 250, 250, 0]
    monkeypatch.setattr("mtkit.serve.fronts.deepl.MAX_BYTES", 800)
    assert asyncio.run(run()) == [2, 2, 2, 2, 0]


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_a_glossary_is_read_once_and_beside_the_loop(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, threads = random.Random(seed), cast("list[int]", [])
    terms = [[f"term {seed} {number}", *(f"form {rng.random()}",) * rng.randrange(1, 3)] for number in range(5)]
    read = Glossary.of

    def of(terms: Any) -> Glossary:
        threads.append(threading.get_ident())
        return read(terms)

    monkeypatch.setattr(Glossary, "of", of)
    monkeypatch.setattr(requests, "_CHECKED", OrderedDict())

    async def run() -> list[str]:
        fields = [RequestFields({"glossary": terms}), RequestFields({"glossary": json.dumps(terms)})]
        return [await each.terms("glossary") for each in fields * 3]

    texts = asyncio.run(run())
    assert [json.loads(text) for text in texts] == [terms] * 6
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
