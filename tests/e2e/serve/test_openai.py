"""The interface of OpenAI, by requests; tests/interop has the official client."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.e2e.serve.conftest import Server

TEXT = "the dog sees a cat. The man finds a house.\n\n A red dog."


def ask(server: Server, **fields: Any) -> httpx.Response:
    body = {"model": "en-de", "messages": [{"role": "user", "content": TEXT}], **fields}
    return server.client.post("/v1/chat/completions", json=body)


def test_a_completion_is_the_translation(server: Server) -> None:
    translated = server.translate(q=TEXT).json()["translatedText"]
    system = {"role": "system", "content": "Translate from English to German."}
    for content in (TEXT, [{"type": "text", "text": TEXT}]):
        answer = ask(server, messages=[system, {"role": "user", "content": content}], temperature=0.3, max_tokens=9)
        assert answer.status_code == 200, answer.text
        (choice,) = answer.json()["choices"]
        assert choice["message"] == {"role": "assistant", "content": translated, "refusal": None}
        assert choice["finish_reason"] == "stop"
        usage = answer.json()["usage"]
        assert usage["total_tokens"] == len(TEXT.split()) + len(translated.split())


def test_a_stream_has_a_chunk_for_each_sentence(server: Server) -> None:
    lines = ask(server, stream=True, stream_options={"include_usage": True}).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["prompt_tokens"] == len(TEXT.split())
    deltas = [chunk["choices"][0]["delta"].get("content") for chunk in chunks[:-1]]
    assert len(deltas) == 1 + 3 + 1
    assert deltas[-1] is None
    sentences = [server.translate(q=each).json()["translatedText"] for each in TEXT.replace(". T", ".\nT").split("\n")]
    assert "".join(deltas[:-1]) == f"{sentences[0]} {sentences[1]}\n\n {sentences[3].strip()}"


def test_models_are_directions(server: Server) -> None:
    models = [each["id"] for each in server.client.get("/v1/models").json()["data"]]
    assert {"en-de", "de-fr", "en-fr", "auto-de", "en-de/special"} <= {*models}
    texts = {name: ask(server, model=name).json()["choices"][0]["message"]["content"] for name in models}
    named = server.translate(q=TEXT, model="special").json()["translatedText"]
    assert texts["en-de/special"] == named != texts["en-de"] == texts["auto-de"]
    assert ask(server, model="special").json()["choices"][0]["message"]["content"] == named
    assert texts["en-fr"] == server.translate(q=TEXT, target="fr").json()["translatedText"]


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"model": "gpt-5"}, 404, "model: 'gpt-5' is not one of en-de"),
        ({"tools": []}, 400, "tools: no parameter of a translation"),
        ({"messages": []}, 400, "messages: the last one"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, 400, "messages: the last one"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages: the content"),
        ({"messages": "a"}, 400, "messages: a list of objects"),
        ({"n": 0}, 400, "n: at least one choice"),
        ({"n": 3, "stream": True}, 400, "n: a stream has one choice"),
        ({"stream_options": 1, "stream": True}, 400, "stream_options: an object"),
    ],
)
def test_errors_are_in_the_shape_of_openai(server: Server, fields: dict[str, Any], status: int, words: str) -> None:
    answer = ask(server, **fields)
    assert answer.status_code == status
    assert answer.json()["error"]["message"].startswith(words)
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_several_choices(server: Server) -> None:
    choices = ask(server, n=3, messages=[{"role": "user", "content": "the dog"}]).json()["choices"]
    assert len({each["message"]["content"] for each in choices}) == len(choices) == 3
