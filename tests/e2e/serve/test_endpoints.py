"""Every endpoint of every front answers a request as the specification says; a new one needs its body here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.serve.conftest import running

FIELDS = {"q": "the dog", "source": "en", "target": "de"}
FILE = {"file": ("a.txt", "the dog\n")}
DIRECTION = {"source_lang": "EN", "target_lang": "DE"}
GLOSSARY = {"name": "mine", "entries": "dog\tHund", **DIRECTION}
BODIES: dict[str, dict[str, Any]] = {
    "/translate": {"json": FIELDS},
    "/detect": {"json": {"q": "the dog"}},
    "/suggest": {"json": {**FIELDS, "s": "der Hund"}},
    "/sentences": {"json": FIELDS},
    "/next_words": {"json": FIELDS},
    "/translate_file": {"data": FIELDS, "files": FILE},
    "/documents": {"data": FIELDS, "files": FILE},
    "/v2/translate": {"json": {"text": ["the dog"], **DIRECTION}},
    "/v2/glossaries": {"json": GLOSSARY},
    "/v1/chat/completions": {"json": {"model": "en-de", "messages": [{"role": "user", "content": "the dog"}]}},
    "/v2/document": {"data": DIRECTION, "files": FILE},
}
TYPES = {"string": str, "integer": int, "number": int | float, "boolean": bool, "array": list, "object": dict}


def conforms(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is of a schema, as far as the specification uses JSON Schema."""
    if "oneOf" in schema:
        return sum(conforms(value, each) for each in schema["oneOf"]) == 1
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if value is None or not any(isinstance(value, TYPES[kind]) for kind in kinds if kind != "null"):
        return value is None and "null" in kinds
    if isinstance(value, list):
        return all(conforms(each, schema["items"]) for each in value) if "items" in schema else True
    fields = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    return not missing and all(conforms(value[name], fields[name]) for name in fields if name in value)


def identifier_for(client: httpx.Client, path: str) -> str:
    """The identifier of a new glossary, or of a document that is translated, for the path of an endpoint."""
    if "glossaries" in path:
        return str(client.post("/v2/glossaries", **BODIES["/v2/glossaries"]).json()["glossary_id"])
    started = client.post("/documents", **BODIES["/documents"]).json()
    while not (state := client.get(f"/documents/{started['id']}").json())["done"]:
        assert "error" not in state
        time.sleep(0.01)
    return str(started["id"])


def test_every_endpoint_answers(models: dict[str, Path], tmp_path: Path) -> None:
    requested = set()
    with running(str(models["en-de"]), "--workers", "1", "--suggestions", str(tmp_path / "a.tmx")) as server:
        paths = server.client.get("/spec").json()["paths"]
        for path, method, operation in ((p, m, each) for p, methods in paths.items() for m, each in methods.items()):
            schemas = {each["name"]: each["schema"] for each in operation.get("parameters", ())}
            identifier = identifier_for(server.client, path) if "{identifier}" in path else ""
            (status,) = (each for each in operation["responses"] if each.startswith("2"))
            content = operation["responses"][status].get("content", {})
            body = BODIES[path] if "requestBody" in operation else {}
            for name in schemas.get("name", {}).get("enum", ["a.txt"]):
                response = server.client.request(method, path.format(identifier=identifier, name=name), **body)
                assert response.status_code == int(status), (method, path, response.text)
                kind = response.headers.get("content-type", "").partition(";")[0]
                assert kind in content if content else not response.content, (method, path, kind)
                if kind == "application/json":
                    assert conforms(response.json(), content[kind]["schema"]), (method, path, response.json())
            requested.add(path)
    assert len(requested) > 20
    assert {*BODIES} <= requested
