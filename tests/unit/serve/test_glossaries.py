"""Glossaries of clients: none takes the place of all, and reading them is no work of the loop."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import OrderedDict
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mtkit.serve.clients import RequestError
from mtkit.serve.core import Direction
from mtkit.serve.fronts import requests
from mtkit.serve.fronts.deepl_glossaries import Glossaries, StoredGlossary
from mtkit.serve.fronts.requests import RequestFields
from mtkit.translate.glossary import Glossary
from tests.toy.sampling import seeds


def test_a_client_has_its_share_of_glossaries(monkeypatch: pytest.MonkeyPatch) -> None:
    async def create(glossaries: Glossaries, client: str) -> None:
        fields = {"source_lang": "en", "target_lang": "de", "entries": "dog\tHund" + "x" * 80}
        await glossaries.store(StoredGlossary(client, "n"), [RequestFields(fields)])

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
    monkeypatch.setattr("mtkit.serve.fronts.deepl_glossaries.MAX_BYTES", 800)
    assert asyncio.run(run()) == [2, 2, 2, 2, 0]


def test_terms_of_a_dictionary_are_merged_or_replaced_and_a_wrong_request_changes_nothing() -> None:
    service = SimpleNamespace(find_direction=lambda source, target: Direction(source, target))
    glossaries, glossary = Glossaries(cast(Any, service)), StoredGlossary("one", "n")

    def store(*dictionaries: tuple[str, str, str], **options: bool) -> dict[str, str]:
        names = ("source_lang", "target_lang", "entries")
        fields = [RequestFields(dict(zip(names, each, strict=True))) for each in dictionaries]
        asyncio.run(glossaries.store(glossary, fields, **options))
        return {source: each.as_tsv() for (source, _), each in glossary.dictionaries.items()}

    first = store(("en", "de", "dog\tHund\ncat\tKatze"), ("fr", "de", "chien\tHund"))
    assert first == {"en": "dog\tHund\ncat\tKatze", "fr": "chien\tHund"}
    merged = store(("en", "de", "dog\tDackel\nman\tMann"), keeps_terms=True)
    assert merged == {"en": "dog\tDackel\ncat\tKatze\nman\tMann", "fr": "chien\tHund"}
    for wrong in (("en", "de", "dog"), ("en", "de", "")):
        with pytest.raises(RequestError, match="entries"):
            store(("fr", "de", "chat\tKatze"), wrong)
        assert {source: each.as_tsv() for (source, _), each in glossary.dictionaries.items()} == merged
    assert store(("en", "de", "dog\tHund")) == {"en": "dog\tHund", "fr": "chien\tHund"}
    assert glossaries.of("one") == [glossary]


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


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_changes_at_the_same_time_lose_nothing_and_bring_nothing_back(seed: int) -> None:
    rng = random.Random(seed)
    service = SimpleNamespace(find_direction=lambda source, target: Direction(source, target))
    glossaries, glossary = Glossaries(cast(Any, service)), StoredGlossary("one", "n")

    def fields(number: int) -> RequestFields:
        terms = "\n".join(f"term {number} {index}\tx" for index in range(rng.choice([1, 10, 1000])))
        return RequestFields({"source_lang": "en", "target_lang": "de", "entries": terms})

    async def change(number: int) -> bool:
        await asyncio.sleep(rng.random() / 300)
        with suppress(RequestError):
            found = glossaries.find(glossary.identifier, "one")
            await glossaries.store(found, [fields(number)], keeps_terms=True)
            return True
        return False

    async def delete() -> None:
        await asyncio.sleep(rng.random() / 300)
        glossaries.delete(glossary.identifier, "one")

    async def run() -> None:
        await glossaries.store(glossary, [fields(0)])
        is_deleted = rng.random() < 0.7
        *changed, _ = await asyncio.gather(*map(change, range(1, 6)), delete() if is_deleted else asyncio.sleep(0))
        assert glossaries.of("one") == ([] if is_deleted else [glossary])
        (dictionary,) = glossary.dictionaries.values()
        kept = {int(line.split()[1]) for line in dictionary.as_tsv().split("\n")}
        assert kept == {0, *(number for number, was_stored in enumerate(changed, start=1) if was_stored)}
        assert is_deleted or all(changed)

    asyncio.run(run())
