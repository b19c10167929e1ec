"""The interface of DeepL: answers, tags, glossaries, and what is refused."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.e2e.serve.conftest import Server

KEY = {"authorization": "DeepL-Auth-Key any"}
TEXT = "the dog sees a cat . A man finds the house ."


def post(server: Server, path: str = "/v2/translate", **fields: Any) -> httpx.Response:
    return server.client.post(path, json=fields, headers=KEY)


def texts(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [each["text"] for each in response.json()["translations"]]


def test_translate(server: Server, translated: Callable[..., list[str]]) -> None:
    expected = translated([TEXT, "a dog"], "--split-sentences")
    assert texts(post(server, text=[TEXT, "a dog"], source_lang="EN", target_lang="DE")) == expected
    form = {"text": [TEXT, "a dog"], "source_lang": "en-US", "target_lang": "de", "show_billed_characters": "1"}
    response = server.client.post("/v2/translate", data=form, headers=KEY)
    assert texts(response) == expected
    assert response.json()["translations"][1]["billed_characters"] == 5
    assert response.json()["translations"][1]["detected_source_language"] == "EN"


def test_each_text_has_a_language_of_its_own(server: Server) -> None:
    both = ["Das ist ein ganz gewöhnlicher Satz über das Wetter.", "This is an ordinary sentence about the weather."]
    response = post(server, text=both, target_lang="FR")
    assert [each["detected_source_language"] for each in response.json()["translations"]] == ["DE", "EN"]
    alone = [texts(post(server, text=[text], target_lang="FR"))[0] for text in both]
    assert texts(response) == alone


@pytest.mark.whole
def test_sentences(server: Server, translated: Callable[..., list[str]]) -> None:
    fields = {"source_lang": "EN", "target_lang": "DE"}
    assert texts(post(server, text=[TEXT], split_sentences="0", **fields)) == translated([TEXT])
    lines = "the dog\nsees a cat"
    assert texts(post(server, text=[lines], **fields)) == ["\n".join(translated(lines.split("\n")))]
    for end, split in itertools.product(("\n", "\r\n", "\r"), ("nonewlines", "0")):
        joined = post(server, text=[lines.replace("\n", end)], split_sentences=split, **fields)
        assert texts(joined) == translated(["the dog sees a cat"]), (end, split)


@pytest.mark.whole
def test_tags(server: Server, translated: Callable[..., list[str]]) -> None:
    (plain,) = translated(["the dog sees a cat"])
    fields = {"source_lang": "EN", "target_lang": "DE"}
    (marked,) = texts(post(server, text=['the <b id="1">dog</b> sees a cat<br/>'], tag_handling="xml", **fields))
    assert marked.count('<b id="1">') == marked.count("</b>") == marked.count("<br/>") == 1
    assert marked.replace('<b id="1">', "").replace("</b>", "").replace("<br/>", "") == plain
    (kept,) = texts(post(server, text=["the <x>dog</x> sees"], tag_handling="xml", ignore_tags=["x"], **fields))
    assert "<x>dog</x>" in kept
    assert texts(post(server, text=["<p>the dog</p>"], tag_handling="html", **fields)) == [
        f"<p>{translated(['the dog'])[0]}</p>"
    ]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"formality": "more"}, 400),
        ({"formality": "less"}, 400),
        ({"formality": "rude"}, 400),
        ({"target_lang": None}, 400),
        ({"target_lang": "XX"}, 400),
        ({"text": None}, 400),
        ({"text": [1]}, 400),
        ({"tag_handling": "pdf"}, 400),
        ({"split_sentences": "2"}, 400),
        ({"context": ["a"]}, 400),
        ({"glossary_id": "no"}, 404),
        ({"text": ["x" * 20_001]}, 413),
    ],
)
def test_refusals(server: Server, change: dict[str, Any], status: int) -> None:
    response = post(server, **{"text": ["a dog"], "source_lang": "EN", "target_lang": "DE", **change})
    assert (response.status_code, list(response.json())) == (status, ["message"])


@pytest.mark.parametrize("formality", ["default", "prefer_more", "prefer_less"])
def test_wishes_of_formality_change_nothing(server: Server, formality: str) -> None:
    fields = {"text": ["a dog"], "source_lang": "EN", "target_lang": "DE", "context": "in a house"}
    assert texts(post(server, formality=formality, **fields)) == texts(post(server, **fields))


def test_glossaries(server: Server) -> None:
    fields = {"name": "mine", "source_lang": "en", "target_lang": "de", "entries_format": "tsv"}
    made = post(server, "/v2/glossaries", entries="dog\tHund\ncat\tKatze", **fields)
    assert (made.status_code, made.json()["entry_count"]) == (201, 2)
    identifier = made.json()["glossary_id"]
    path = f"/v2/glossaries/{identifier}"
    languages = {"source_lang": "EN", "target_lang": "DE"}
    assert "Hund" in texts(post(server, text=["the dog"], glossary_id=identifier, **languages))[0]
    other = post(server, text=["der Hund"], glossary_id=identifier, source_lang="DE", target_lang="FR")
    assert other.status_code == 400
    assert server.client.get(f"{path}/entries", headers=KEY).text == "dog\tHund\ncat\tKatze"
    assert identifier in [each["glossary_id"] for each in server.client.get("/v2/glossaries").json()["glossaries"]]
    assert server.client.get(path).json() == made.json()
    assert server.client.delete(path).status_code == 204
    assert server.client.get(path).status_code == 404
    for entries in ("", "dog", "dog\tHund\nDOG\tKatze", "\t", "a\t" + "x" * 500):
        assert post(server, "/v2/glossaries", entries=entries, **fields).status_code == 400
    open_quote = post(server, "/v2/glossaries", entries='dog,"Hund\ncat,Katze', **{**fields, "entries_format": "csv"})
    assert (open_quote.status_code, "line 1: a quote that is never closed" in open_quote.text) == (400, True)
    csv = post(server, "/v2/glossaries", entries='"a, b",c,en,de', **{**fields, "entries_format": "csv"})
    assert csv.json()["entry_count"] == 1


def test_languages_and_usage(server: Server) -> None:
    sources = server.client.get("/v2/languages", params={"type": "source"}).json()
    assert {each["language"]: each["name"] for each in sources} == {"EN": "English", "DE": "German", "FR": "French"}
    targets = server.client.get("/v2/languages", params={"type": "target"}).json()
    assert all(each["supports_formality"] is False for each in targets)
    before = server.client.get("/v2/usage").json()
    post(server, text=["a dog"], source_lang="EN", target_lang="DE")
    assert server.client.get("/v2/usage").json()["character_count"] - before["character_count"] == 5
    assert {"source_lang": "en", "target_lang": "de"} in server.client.get("/v2/glossary-language-pairs").json()[
        "supported_languages"
    ]


@pytest.mark.whole
def test_documents(server: Server, translated: Callable[..., list[str]]) -> None:
    files = {"file": ("a.html", b"<p>the dog</p>")}
    started = server.client.post("/v2/document", data={"source_lang": "EN", "target_lang": "DE"}, files=files).json()
    path = f"/v2/document/{started['document_id']}"
    while (state := post(server, path, document_key=started["document_key"]).json())["status"] != "done":
        assert state["status"] in ("queued", "translating")
        time.sleep(0.05)
    assert state["billed_characters"] == 7
    result = post(server, f"{path}/result", document_key=started["document_key"])
    assert result.text == f"<p>{translated(['the dog'])[0]}</p>"
    assert post(server, f"{path}/result", document_key=started["document_key"]).status_code == 404
