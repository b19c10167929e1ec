"""The specification as a page for people: endpoints, their fields, an example of each. It needs no script."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from html import escape
from typing import Any
from urllib.parse import urlencode

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>mtkit – API</title>
<link rel="icon" href="page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="page/style.css">
<link rel="stylesheet" href="page/docs.css">
</head>
<body>
<header class="top">
  <h1><a href="./"><img src="page/icon.svg" alt="" width="30" height="30"> mtkit</a> <span>API</span></h1>
  <nav aria-label="More"><a href="./">Translate</a> <a href="spec">OpenAPI (JSON)</a></nav>
</header>
"""


def docs_page(spec: dict[str, Any], url: str, *, needs_key: bool) -> str:
    """A page of HTML.

    Args:
        spec: specification (OpenAPI), whose operations have examples and one tag each.
        url: address of the server, which ends with a slash.
        needs_key: whether requests need a key.
    """
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {each["name"]: [] for each in spec["tags"]}
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            groups[operation["tags"][0]].append((method.upper(), path, operation))
    operations = [operation for group in groups.values() for _, _, operation in group]
    errors = {code: each["description"] for one in operations for code, each in one["responses"].items() if code >= "4"}
    key = "<p>This server needs a key: write it in the place of <code>KEY</code>.</p>" if needs_key else ""
    contents = "".join(
        f'<li><a href="#{_anchor(title)}">{escape(title)}</a><ul>{"".join(map(_entry, group))}</ul></li>'
        for title, group in groups.items()
    )
    sections = "".join(
        f'<section aria-labelledby="{_anchor(title)}"><h2 id="{_anchor(title)}">{escape(title)}</h2>'
        f"{''.join(_article(*each, url, needs_key=needs_key) for each in group)}</section>"
        for title, group in groups.items()
    )
    rows = _table(("Status", "Meaning"), [(code, escape(about)) for code, about in sorted(errors.items())])
    return (
        f'{_HEAD}<div class="docs"><nav class="contents" aria-label="Contents"><ul>{contents}</ul></nav>\n<main>{key}'
        f'{sections}<section aria-labelledby="errors"><h2 id="errors">Errors</h2>'
        f"<p>An error has one of these statuses and one sentence, in the shape of its interface.</p>{rows}</section>"
        f"</main></div>\n<footer><p>mtkit {escape(spec['info']['version'])}</p></footer>\n</body>\n</html>\n"
    )


def _anchor(*words: str) -> str:
    return re.sub(r"\W+", "-", " ".join(words).lower()).strip("-") or "-"


def _entry(operation: tuple[str, str, dict[str, Any]]) -> str:
    method, path, _ = operation
    return f'<li><a href="#{_anchor(method, path)}"><b>{method}</b> {_breakable(path)}</a></li>'


def _breakable(path: str) -> str:
    """A path that may be broken after its slashes."""
    return escape(path).replace("/", "/<wbr>")


def _article(method: str, path: str, operation: dict[str, Any], url: str, *, needs_key: bool) -> str:
    name = _anchor(method, path)
    parameters = operation.get("parameters", [])
    rows = [_field(each["name"], each["schema"], each["in"], each) for each in parameters]
    contents: dict[str, Any] = operation.get("requestBody", {}).get("content", {})
    media_type = next(iter(contents), "")
    content = contents.get(media_type, {})
    body = content.get("schema", {"properties": {}})
    rows += [
        _field(key, schema, "body", {**schema, "required": key in body["required"]})
        for key, schema in body["properties"].items()
    ]
    fields = _table(("Field", "Type", "Place", "Meaning"), rows) if rows else ""
    command = _curl(method, path, parameters, media_type, content, url, needs_key=needs_key)
    status, answer = next((code, each) for code, each in operation["responses"].items() if code < "4")
    errors = ", ".join(code for code in sorted(operation["responses"]) if code >= "4")
    about = f"{operation['summary']}. {operation.get('description', '')}".strip()
    return (
        f'<article aria-labelledby="{name}"><h3 id="{name}"><b>{method}</b> <code>{escape(path)}</code></h3>'
        f"<p>{_prose(about)}</p>{fields}"
        f'<pre class="example">{escape(command)}</pre>'
        f'<p>Answer: {escape(status)}{_answer(answer)}</p><p class="help">Errors: {escape(errors)}</p></article>\n'
    )


def _prose(text: str) -> str:
    """A text in which `words` in backticks are code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _field(name: str, schema: dict[str, Any], place: str, facts: dict[str, Any]) -> tuple[str, ...]:
    need = " <em>required</em>" if facts["required"] else ""
    choices = ", ".join(f"<code>{escape(each)}</code>" for each in schema.get("enum", ()))
    about = _prose(facts["description"]) + (f" ({choices})" if choices else "")
    return f"<code>{escape(name)}</code>{need}", escape(_type(schema)), place, about


def _type(schema: dict[str, Any], plural: str = "") -> str:
    """The type of a schema in words, with the ending of a plural."""
    if "oneOf" in schema:
        return " or ".join(map(_type, schema["oneOf"]))
    if schema.get("format") == "binary":
        return "file"
    if "items" in schema:
        return f"list{plural} of {_type(schema['items'], 's')}"
    kind = schema.get("type", "value")
    kind = " or ".join(kind) if isinstance(kind, list) else str(kind)
    return f"{kind}, {schema['minimum']} to {schema['maximum']}" if "maximum" in schema else kind + plural


def _answer(answer: dict[str, Any]) -> str:
    """The media types of an answer, and the fields of a JSON one."""
    content = answer.get("content", {})
    if not content:
        return ", empty"
    schema = content.get("application/json", {}).get("schema", {})
    item = schema.get("items", schema)
    names = ", ".join(f"<code>{escape(name)}</code>" for name in item.get("properties", ()))
    kind = ", a list, each with " if "items" in schema else ", with "
    return f", {escape(', '.join(content))}{kind + names if names else ''}"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML, the first of each row its name."""
    columns = "".join(f'<th scope="col">{each}</th>' for each in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>' for first, *rest in rows
    )
    return f"<table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>"


def _curl(
    method: str,
    path: str,
    parameters: list[dict[str, Any]],
    media_type: str,
    content: dict[str, Any],
    url: str,
    *,
    needs_key: bool,
) -> str:
    """The command of an example."""
    for each in parameters:
        path = path.replace(f"{{{each['name']}}}", str(each.get("example", "NAME"))) if each["in"] == "path" else path
    query = {each["name"]: each["example"] for each in parameters if each["in"] == "query" and "example" in each}
    words = ["curl", url.removesuffix("/") + path + (f"?{urlencode(query)}" if query else "")]
    if needs_key:
        words += ["-H", "Authorization: Bearer KEY"]
    example = content.get("example", {})
    if media_type == "multipart/form-data":
        for name, value in example.items():
            is_file = content["schema"]["properties"][name].get("format") == "binary"
            words += ["-F", f"{name}={'@' * is_file}{value}"]
    elif content:
        words += ["-H", f"Content-Type: {media_type}", "-d", json.dumps(example, ensure_ascii=False)]
    elif method != "GET":
        words[1:1] = ["-X", method]
    return re.sub(r" (-[HFd]) ", r" \\\n  \1 ", shlex.join(words))
