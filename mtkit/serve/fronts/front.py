"""Fronts: the interfaces of the server, each with its endpoints, shape of errors, and part of the specification."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mtkit.serve.clients import Clients, RequestError
from mtkit.serve.core import TranslationService
from mtkit.serve.fronts.exchange import while_connected
from mtkit.serve.fronts.requests import RequestFields, admit

T = TypeVar("T")
Schema = dict[str, Any]

ANYTHING: Schema = {}
TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
LIST: Schema = {"type": "array"}
FILE: Schema = {"type": "string", "format": "binary"}  # a field with it makes the body a form
IDENTIFIER: Schema = {"type": "string", "minLength": 1, "pattern": r"^[\w-]+$"}

_OF_ALL = (400, 403, 408, 413, 421, 429, 503)  # errors of every endpoint
_ERRORS = {
    400: "A field is wrong.",
    403: "The API key is missing or wrong, or a page of another site asks.",
    404: "There is no such thing.",
    408: "The body comes too slowly.",
    413: "The request is too long.",
    421: "The header Host names another server.",
    429: "The client asks too often.",
    500: "An error of the server.",
    503: "The server is busy; see Retry-After.",
    507: "The disk of the server is full.",
}


def list_of(schema: Schema) -> Schema:
    """The schema of a list."""
    return {"type": "array", "items": schema}


TERMS = list_of(list_of(TEXT))  # of a glossary: each term and its translations


def one_or_list(schema: Schema) -> Schema:
    """The schema of a value or a list of values."""
    return {"oneOf": [schema, list_of(schema)]}


def choice(words: Iterable[str]) -> Schema:
    """The schema of one of several words."""
    return {"type": "string", "enum": [*words]}


def integer_to(maximum: int) -> Schema:
    """The schema of an integer from 0 to a maximum."""
    return {"type": "integer", "minimum": 0, "maximum": maximum}


def record(*, optional: Mapping[str, Schema] | None = None, **required: Schema) -> Schema:
    """The schema of an object with some fields."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": [*required]}


class RequestField(NamedTuple):
    """A field of requests in the specification.

    Attributes:
        about: its description, a phrase.
        example: its value in examples, in which {source} and {target} are languages of a model; None: examples leave it
            out.
    """

    about: str
    example: Any = None


SHARED_FIELDS: Mapping[str, RequestField] = {
    "api_key": RequestField("key of the client, which can also be the header Authorization: Bearer KEY"),
    "model": RequestField("name of one of several models of the direction; see /models"),
    "source": RequestField("language of the text, or auto", "{source}"),
    "target": RequestField("language of the translation", "{target}"),
    "glossary": RequestField("list of terms, each a list of the term and its allowed translations; in a form, as JSON"),
    "file": RequestField("document, whose format is known by the end of its name", "letter.txt"),
    "identifier": RequestField("identifier that an earlier answer has given", "ID"),
}


@dataclass(frozen=True)
class Endpoint:
    """A path, its handler, and their description in the specification, which is the docstring of the handler.

    Attributes:
        path: a part that varies is a name in braces.
        handler: answers requests.
        methods: of HTTP.
        body: schema of an object: a form if one of its fields is FILE, else JSON. None: there is no body.
        query: optional fields of the address.
        segments: schemas of those parts of the path that vary and are no identifiers.
        answer: schema of the answer; None: it is empty.
        media_types: of the answer.
        status: of the answer.
        errors: statuses of errors beside those of every endpoint.
    """

    path: str
    handler: Callable[[Request], Awaitable[Response]]
    methods: Sequence[str] = ("GET",)
    body: Schema | None = field(default=None, kw_only=True)
    query: Mapping[str, Schema] = field(default_factory=dict, kw_only=True)
    segments: Mapping[str, Schema] = field(default_factory=dict, kw_only=True)
    answer: Schema | None = field(kw_only=True)
    media_types: Sequence[str] = field(default=("application/json",), kw_only=True)
    status: int = field(default=200, kw_only=True)
    errors: Sequence[int] = field(default=(), kw_only=True)

    @property
    def takes_file(self) -> bool:
        """True if the body has a file."""
        return self.body is not None and FILE in self.body["properties"].values()

    def fields(self) -> dict[str, list[tuple[str, Schema, bool]]]:
        """Name, schema and necessity of each field, by its place: path, query or body."""
        segments = {name: self.segments.get(name, IDENTIFIER) for name in re.findall(r"\{(\w+)\}", self.path)}
        body = self.body or record()
        return {
            "path": [(name, schema, True) for name, schema in segments.items()],
            "query": [(name, schema, False) for name, schema in self.query.items()],
            "body": [(name, schema, name in body["required"]) for name, schema in body["properties"].items()],
        }

    def operation(self, front: Front) -> dict[str, Any]:
        """The operation of each method in the specification; `front` states fields and the shape of errors."""
        fields = self.fields()
        statuses = [*_OF_ALL, *self.errors, *([404] if fields["path"] else ()), *([507] if self.takes_file else ())]
        error = {"application/json": {"schema": {"$ref": f"#/components/schemas/{front.error_schema[0]}"}}}
        answer: dict[str, Any] = {"description": "The answer."}
        if self.answer is not None:
            answer["content"] = {each: {"schema": self.answer} for each in self.media_types}
        summary, _, description = inspect.cleandoc(self.handler.__doc__ or "").partition("\n")
        operation: dict[str, Any] = {
            "tags": [front.title],
            "summary": summary.removesuffix("."),
            "responses": {
                str(self.status): answer,
                **{str(status): {"description": _ERRORS[status], "content": error} for status in statuses},
            },
        }
        if description.strip():
            operation["description"] = " ".join(description.split())
        if self.body is not None:
            media_type = "multipart/form-data" if self.takes_file else "application/json"
            described = {
                name: {**schema, "description": front.fields[name].about} for name, schema, _ in fields["body"]
            }
            examples = {name: front.fields[name].example for name, _, _ in fields["body"]}
            content = {
                "schema": {**self.body, "properties": described},
                "example": {name: each for name, each in examples.items() if each is not None},
            }
            operation["requestBody"] = {"required": True, "content": {media_type: content}}
        if parameters := [
            {
                "name": name,
                "in": place,
                "required": is_required,
                "schema": schema,
                "description": front.fields[name].about,
                **({} if front.fields[name].example is None else {"example": front.fields[name].example}),
            }
            for place in ("path", "query")
            for name, schema, is_required in fields[place]
        ]:
            operation["parameters"] = parameters
        return operation


class Front:
    """An interface of the server.

    Attributes:
        prefix: of all its paths; an error of a path that no front has is in the shape of the longest prefix.
        title: of the interface, by which the specification groups endpoints.
        fields: of requests by name.
        error_schema: name and schema of the body of an error.
        lists: names of fields of forms that are lists even with one value.
    """

    prefix: ClassVar[str] = "/"
    title: ClassVar[str] = "LibreTranslate"
    fields: ClassVar[Mapping[str, RequestField]] = SHARED_FIELDS
    error_schema: ClassVar[tuple[str, Schema]] = ("Error", record(error=TEXT))
    lists: ClassVar[Sequence[str]] = ()

    def __init__(self, service: TranslationService, clients: Clients) -> None:
        self._service, self._clients = service, clients

    def endpoints(self) -> list[Endpoint]:
        """The endpoints."""
        raise NotImplementedError

    def error_body(self, error: RequestError) -> dict[str, Any]:
        """The body of an error, as `error_schema` says."""
        return {"error": str(error)}

    async def _admit(self, request: Request) -> tuple[RequestFields, str]:
        """The fields of a request, and the name of its client; errors as `admit`."""
        return await admit(request, self._clients, lists=self.lists)

    async def _finish(self, request: Request, work: Coroutine[Any, Any, T]) -> T:
        """The result of work within the time of a request; errors as `while_connected`."""
        return await while_connected(request, work, timeout=self._service.settings.timeout)


def routes(fronts: Iterable[Front]) -> list[Route]:
    """The routes of all fronts; ValueError if a path lacks the prefix of its front, or a field its description."""
    endpoints = [(front, each) for front in fronts for each in front.endpoints()]
    if stray := [each.path for front, each in endpoints if not each.path.startswith(front.prefix)]:
        raise ValueError(f"paths without the prefix of their front: {stray}")
    names = {(front, name) for front, each in endpoints for fields in each.fields().values() for name, _, _ in fields}
    if unknown := sorted(name for front, name in names if name not in front.fields):
        raise ValueError(f"fields without a description in their front: {unknown}")
    return [Route(each.path, each.handler, methods=[*each.methods]) for _, each in endpoints]
