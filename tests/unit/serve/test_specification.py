"""The specification of the server: generated from the endpoints of all fronts, each with the errors of its shape."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.testclient import TestClient

from mtkit.serve.clients import RequestError
from mtkit.serve.fronts import app as module
from mtkit.serve.fronts.app import SpecAndMetrics, build_app
from mtkit.serve.fronts.docs import docs_page
from mtkit.serve.fronts.front import TEXT, Endpoint, Front, RequestField, record, routes
from mtkit.serve.settings import ServerSettings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a server without models."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "Registry", lambda *_: SimpleNamespace(models=[], directions={}, failures=list))
    return tmp_path


def built(**settings: Any) -> Starlette:
    return build_app(ServerSettings(models=[Path("a")], **settings), lambda line: None)[0]


def client_of(app: Starlette) -> TestClient:
    return TestClient(app, "http://localhost", raise_server_exceptions=False)


@pytest.mark.parametrize("has_suggestions", [True, False])
def test_the_specification_has_the_routes_and_no_others(has_suggestions: bool, folder: Path) -> None:
    app = built(suggestions=folder / "s.tmx" if has_suggestions else None)
    paths = client_of(app).get("/spec").json()["paths"]
    described = {(path, method.upper()) for path, methods in paths.items() for method in methods}
    assert described == {(route.path, method) for route in app.routes for method in route.methods - {"HEAD"}}  # type: ignore[attr-defined]
    assert ("/suggest" in paths) == has_suggestions
    assert {("/v2/usage", "GET"), ("/v2/usage", "POST"), ("/metrics", "GET"), ("/docs", "GET")} <= described


def test_each_endpoint_has_a_summary_and_errors_of_a_known_shape(folder: Path) -> None:
    spec = client_of(built(suggestions=folder / "s.tmx")).get("/spec").json()
    schemas = spec["components"]["schemas"]
    assert {name: each["required"] for name, each in schemas.items()} == {
        "Error": ["error"],
        "Message": ["message"],
        "OpenAIError": ["error"],
    }
    for path, methods in spec["paths"].items():
        for operation in methods.values():
            assert operation["summary"].rstrip(".") == operation["summary"] != ""
            statuses = {int(status) for status in operation["responses"]}
            assert statuses >= {400, 403, 408, 413, 421, 429, 503}
            assert (507 in statuses) == (path in ("/translate_file", "/documents", "/v2/document", "/suggest"))
            name = {"v1": "OpenAIError", "v2": "Message", "v3": "Message"}.get(path.split("/")[1], "Error")
            for status in statuses - {200, 201, 202, 204}:
                (content,) = operation["responses"][str(status)]["content"].values()
                assert content["schema"] == {"$ref": f"#/components/schemas/{name}"}


class Google(Front):
    """A toy of another interface."""

    prefix = "/language/"
    title = "Google"
    fields: ClassVar[Mapping[str, RequestField]] = {
        "q": RequestField("text", "A dog."),
        "format": RequestField("text or HTML"),
        "model": RequestField("name of a model", "{source}"),
    }
    error_schema = "Status", record(error=record(code={"type": "integer"}, message=TEXT))

    def endpoints(self) -> list[Endpoint]:
        """The endpoint."""
        body = record(q=TEXT, optional={"format": TEXT})
        return [Endpoint("/language/{model}", self.translate, ["POST"], body=body, answer=record(text=TEXT))]

    def error_body(self, error: RequestError) -> dict[str, Any]:
        """The body of an error."""
        return {"error": {"code": error.status, "message": str(error)}}

    async def translate(self, request: Request) -> Response:
        """Translate into capital letters.

        Only the first line is the summary.
        """
        fields, _ = await self._admit(request)
        return JSONResponse({"text": fields.text("q").upper()})


def test_an_endpoint_of_a_new_front_is_specified_and_has_its_errors(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_google(service: Any, clients: Any, fronts: list[Front]) -> SpecAndMetrics:
        fronts.append(Google(service, clients))
        return SpecAndMetrics(service, clients, fronts)

    monkeypatch.setattr(module, "SpecAndMetrics", with_google)
    client = client_of(built())
    spec = client.get("/spec").json()
    operation = spec["paths"]["/language/{model}"]["post"]
    assert (operation["summary"], operation["tags"]) == ("Translate into capital letters", ["Google"])
    assert operation["description"] == "Only the first line is the summary."
    properties = {"q": {**TEXT, "description": "text"}, "format": {**TEXT, "description": "text or HTML"}}
    schema = {"type": "object", "properties": properties, "required": ["q"]}
    content = {"application/json": {"schema": schema, "example": {"q": "A dog."}}}
    assert operation["requestBody"] == {"required": True, "content": content}
    assert operation["parameters"] == [
        {
            "name": "model",
            "in": "path",
            "required": True,
            "schema": {**TEXT, "minLength": 1, "pattern": r"^[\w-]+$"},
            "description": "name of a model",
            "example": "en",
        }
    ]
    assert operation["responses"]["404"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Status"
    }
    assert spec["components"]["schemas"]["Status"] == Google.error_schema[1]
    assert client.post("/language/one", json={"q": "a dog"}).json() == {"text": "A DOG"}
    missing = client.post("/language/one", json={})
    assert (missing.status_code, missing.json()) == (400, {"error": {"code": 400, "message": "q is missing"}})
    foreign = client.post("/language/one", json={"q": "a"}, headers={"Origin": "http://example.org"})
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, 403)  # refused before the endpoint
    assert client.get("/language/").json() == {"error": {"code": 404, "message": "no such path"}}
    assert client.get("/language/one").json()["error"]["message"] == "the path has no such method"
    assert client.get("/language").json() == client.get("/v4/usage").json() == {"error": "no such path"}
    assert client.get("/v2/none").json() == client.get("/v3/style_rules").json() == {"message": "no such path"}
    assert client.get("/page/none").json() == {"error": "no such file"}


@pytest.mark.parametrize("needs_key", [True, False])
def test_the_page_of_the_specification_has_all_of_it(needs_key: bool, folder: Path) -> None:
    (folder / "keys").write_text("a-secret-key\n")
    client = client_of(built(suggestions=folder / "s.tmx", keys=folder / "keys" if needs_key else None))
    page, paths = client.get("/docs").text, client.get("/spec").json()["paths"]
    shown = re.findall(r"<h3.*?<b>(\w+)</b>\s*<code>(.*?)</code>", page)
    assert sorted(shown) == sorted((method.upper(), path) for path, methods in paths.items() for method in methods)
    for name in re.findall(r"<th scope=\"row\"><code>(.*?)</code>", page):
        assert any(name in str(each) for each in paths.values())
    assert re.findall(r"<script|<style|\bon\w+=|\bstyle=|(?:href|src)=\"(?:https?:)?//", page) == []
    examples = re.findall(r"<pre class=\"example\">(.*?)</pre>", page, re.DOTALL)
    assert len(examples) == len(shown)
    assert all(("Authorization: Bearer KEY" in each) == needs_key for each in examples)
    assert "a-secret-key" not in page


def test_the_page_of_the_specification_shows_text_as_text() -> None:
    hostile = "<script>alert(1)</script>\"'&"
    operation = {
        "tags": [hostile],
        "summary": hostile,
        "description": hostile,
        "responses": {"200": {"description": hostile}, "400": {"description": hostile}},
        "parameters": [{"name": hostile, "in": "path", "required": True, "schema": TEXT, "description": hostile}],
    }
    spec = {
        "info": {"title": "a", "version": hostile},
        "tags": [{"name": hostile}],
        "paths": {hostile: {"get": operation}},
    }
    page = docs_page(spec, f"http://{hostile}/", needs_key=False)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 8


def test_errors_below_a_root_path_are_those_of_the_front(folder: Path) -> None:
    client = TestClient(built(), "http://localhost", root_path="/mt")
    assert client.get("/v2/none").json() == {"message": "no such path"}


def test_a_path_outside_of_the_prefix_of_its_front_is_refused() -> None:
    class Stray(Google):
        prefix = "/other/"

    class Silent(Google):
        fields: ClassVar[Mapping[str, RequestField]] = {
            "q": RequestField("text"),
            "model": RequestField("name of a model"),
        }

    with pytest.raises(ValueError, match=r"fields without a description in their front: \['format'\]"):
        routes([Silent(None, None)])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"paths without the prefix of their front: \['/language/\{model\}'\]"):
        routes([Stray(None, None)])  # type: ignore[arg-type]
