"""What the page asks the server for; the page itself is tried in a browser by tests/interop."""

from __future__ import annotations

from typing import Any

from tests.e2e.serve.conftest import Server

FIELDS = {"q": "the dog sees a big cat", "source": "en", "target": "de"}


def test_other_words(server: Server) -> None:
    def ask(path: str, **fields: Any) -> Any:
        response = server.client.post(path, json={**FIELDS, **fields})
        assert response.status_code == 200, response.text
        return response.json()

    words = ask("/next_words", beginning="")["words"]
    assert len({each["word"] for each in words}) == len(words) > 1
    for each in words:
        choices = [{"source": FIELDS["q"], "beginning": each["word"]}, {"source": "another", "beginning": "no"}]
        (sentence,) = ask("/sentences", choices=choices)["sentences"]
        assert sentence["target"] == each["translation"]
        assert sentence["target"].startswith(each["word"])


def test_models_by_name(server: Server) -> None:
    models = server.client.get("/models").json()
    assert {each["name"]: (each["sources"], each["targets"]) for each in models} == {
        "en-de": (["en"], ["de"]),
        "special": (["en"], ["de"]),
        "de-fr": (["de"], ["fr"]),
        "fr-en": (["fr"], ["en"]),
    }
    fields = {**FIELDS, "model": "special"}
    (sentence,) = server.client.post("/sentences", json=fields).json()["sentences"]
    assert sentence["target"] == server.translate(q=FIELDS["q"], model="special").json()["translatedText"]
    assert sentence["target"] != server.translate(q=FIELDS["q"]).json()["translatedText"]
    unknown = server.client.post("/sentences", json={**FIELDS, "model": "none"})
    assert (unknown.status_code, "the models are en-de, special" in unknown.json()["error"]) == (400, True)


def test_words_that_are_copied_are_linked(server: Server) -> None:
    fields = {**FIELDS, "q": "12 https://x.org"}
    (sentence,) = server.client.post("/sentences", json=fields).json()["sentences"]
    assert (sentence["target"], sentence["alignment"]) == (fields["q"], [[0, 0], [1, 1]])


def test_beginnings_are_of_sentences(server: Server) -> None:
    of_list = "choices: a list of objects is expected"
    for wrong, words in (
        ({"source": "a"}, of_list),
        ("text", of_list),
        ([["a", "b"]], of_list),
        ([{"source": "a"}], "beginning is missing"),
        ([{"source": 1, "beginning": "a"}], "source: a text is expected"),
    ):
        response = server.client.post("/sentences", json={**FIELDS, "choices": wrong})
        assert response.status_code == 400, wrong
        assert words in response.json()["error"], wrong
