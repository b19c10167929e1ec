"""Every endpoint answers the example of the specification as the specification says, and so does the page of it."""

from __future__ import annotations

import html
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.serve.conftest import Server, running

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
        body = {"name": "mine", "entries": "dog\tHund", "source_lang": "en", "target_lang": "de"}
        return str(client.post("/v2/glossaries", json=body).json()["glossary_id"])
    fields = {"source": "en", "target": "de"}
    started = client.post("/documents", data=fields, files={"file": ("a.txt", "the dog\n")}).json()
    while not (state := client.get(f"/documents/{started['id']}").json())["done"]:
        assert "error" not in state
        time.sleep(0.01)
    return str(started["id"])


def example_of(operation: dict[str, Any]) -> dict[str, Any]:
    """The body of the example of an operation, as httpx takes it."""
    if "requestBody" not in operation:
        return {}
    ((kind, content),) = operation["requestBody"]["content"].items()
    if kind == "application/json":
        return {"json": content["example"]}
    fields = {**content["example"]}
    return {"files": {"file": (fields.pop("file"), "the dog\n")}, "data": fields}


def test_every_endpoint_answers(models: dict[str, Path], tmp_path: Path) -> None:
    requested = set()
    with running(str(models["en-de"]), "--workers", "1", "--suggestions", str(tmp_path / "a.tmx")) as server:
        paths = server.client.get("/spec").json()["paths"]
        for path, method, operation in ((p, m, each) for p, methods in paths.items() for m, each in methods.items()):
            schemas = {each["name"]: each["schema"] for each in operation.get("parameters", ())}
            identifier = identifier_for(server.client, path) if "{identifier}" in path else ""
            (status,) = (each for each in operation["responses"] if each.startswith("2"))
            content = operation["responses"][status].get("content", {})
            places = ((each["in"], each["name"], each.get("example")) for each in operation.get("parameters", ()))
            query = {name: value for place, name, value in places if place == "query" and value is not None}
            body = {**example_of(operation), "params": query}
            for name in schemas.get("name", {}).get("enum", ["a.txt"]):
                response = server.client.request(method, path.format(identifier=identifier, name=name), **body)
                assert response.status_code == int(status), (method, path, response.text)
                kind = response.headers.get("content-type", "").partition(";")[0]
                assert kind in content if content else not response.content, (method, path, kind)
                if kind == "application/json":
                    assert conforms(response.json(), content[kind]["schema"]), (method, path, response.json())
            requested.add(path)
    assert len(requested) > 20


def test_the_commands_of_the_documentation_work(server: Server, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    (tmp_path / "letter.txt").write_text("the dog\n")
    page = server.client.get("/docs").text
    commands = [html.unescape(each) for each in re.findall(r"<pre class=\"example\">(.*?)</pre>", page, re.DOTALL)]
    complete = [each for each in commands if "/ID" not in each]
    assert len(complete) > 15
    for command in complete:
        words = [
            *shlex.split(command.replace("\\\n", "")),
            "--fail-with-body",
            "--silent",
            "--show-error",
            "--noproxy",
            "*",
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
