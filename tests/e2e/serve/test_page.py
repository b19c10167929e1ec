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
        (sentence,) = ask("/sentences", sentence=0, beginning=each["word"])["sentences"]
        assert sentence["target"] == each["translation"]
        assert sentence["target"].startswith(each["word"])
