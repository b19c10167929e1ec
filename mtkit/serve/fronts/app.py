"""The application: all routes with their headers, limits and errors."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Sequence
from typing import Any

from prometheus_client import generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from mtkit import __version__
from mtkit.serve.clients import Clients, RequestError, read_keys
from mtkit.serve.core import TranslationService
from mtkit.serve.fronts.deepl import DeepL
from mtkit.serve.fronts.deepl_glossaries import DeepLGlossaries, Glossaries
from mtkit.serve.fronts.docs import docs_page
from mtkit.serve.fronts.document_jobs import DocumentJobs, Files
from mtkit.serve.fronts.exchange import Exchange, Sites
from mtkit.serve.fronts.front import TEXT, Endpoint, Front, routes
from mtkit.serve.fronts.libretranslate import LibreTranslate, Suggestions
from mtkit.serve.fronts.openai import OpenAI
from mtkit.serve.fronts.page import Page
from mtkit.serve.metrics import ServerMetrics
from mtkit.serve.registry import Registry
from mtkit.serve.settings import ServerSettings

FORM_BYTES = 64 << 10  # of a request beside its texts or its file
BYTES_PER_CHARACTER = 12  # of a text in JSON, where each half of a character beyond the first 65,536 takes six


def build_app(settings: ServerSettings, note: Callable[[str], None]) -> tuple[Starlette, Registry, DocumentJobs]:
    """The application of a server, its models, and its documents.

    Args:
        settings: of the server.
        note: receives messages for the log.

    Raises:
        MtkitError: a model or the file of keys is missing or damaged.
    """
    metrics = ServerMetrics()
    registry = Registry(settings, metrics, note)
    service = TranslationService(settings, registry, metrics, note)
    models = registry.models
    metrics.gauge("mtkit_queue_texts", "Texts that wait for a worker.", lambda: sum(m.queue.count for m in models))
    metrics.gauge(
        "mtkit_queue_characters", "Characters that wait for a worker.", lambda: sum(m.queue.waiting for m in models)
    )
    metrics.gauge(
        "mtkit_models_memory_bytes", "Memory of the models.", lambda: sum(m.pool.memory() for m in models if m.pool)
    )
    clients = Clients(None if settings.keys is None else read_keys(settings.keys), settings.max_requests)

    jobs, glossaries = DocumentJobs(service), Glossaries(service)
    fronts: list[Front] = [
        LibreTranslate(service, clients),
        Files(service, clients, jobs),
        Page(service, clients),
        DeepL(service, clients, jobs, glossaries),
        DeepLGlossaries(service, clients, glossaries),
        OpenAI(service, clients),
    ]
    if settings.suggestions is not None:
        fronts.append(Suggestions(settings.suggestions, service, clients, note))
    fronts.append(SpecAndMetrics(service, clients, fronts))
    all_routes = routes(fronts)
    file_paths = {each.path for front in fronts for each in front.endpoints() if each.takes_file}

    def endpoint(path: str) -> str:
        return next((each.path for each in all_routes if each.path_regex.fullmatch(path)), "other")

    def max_body(path: str, has_files: bool) -> int:
        of_texts = BYTES_PER_CHARACTER * settings.max_characters
        return FORM_BYTES + (settings.max_file_bytes if has_files and path in file_paths else of_texts)

    errors = _Errors(fronts)
    exchange = Middleware(
        Exchange,
        sites=Sites(settings),
        refuse=errors.answer,
        endpoint=endpoint,
        max_body=max_body,
        metrics=metrics,
        log=(lambda line: None) if settings.log == "errors" else note,
    )
    handlers = dict.fromkeys((RequestError, HTTPException, OSError), errors.on_error) | {Exception: errors.on_bug}
    app = Starlette(routes=all_routes, middleware=[exchange], exception_handlers=handlers)
    return app, registry, jobs


EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SpecAndMetrics(Front):
    """The specification (OpenAPI 3.1), generated from the endpoints of all fronts, as a page too, and the metrics."""

    title = "Server"

    def __init__(self, service: TranslationService, clients: Clients, fronts: Sequence[Front]) -> None:
        super().__init__(service, clients)
        self._fronts = fronts

    def endpoints(self) -> list[Endpoint]:
        """The endpoints."""
        return [
            Endpoint("/spec", self.spec, answer={"type": "object"}),
            Endpoint("/docs", self.docs, answer=TEXT, media_types=["text/html"]),
            Endpoint("/metrics", self.metrics, answer=TEXT, media_types=["text/plain"]),
        ]

    async def spec(self, request: Request) -> Response:
        """This specification."""
        return JSONResponse(self._specification())

    async def docs(self, request: Request) -> Response:
        """The specification as a page for people."""
        page = docs_page(self._specification(), str(request.base_url), needs_key=self._clients.needs_key)
        return HTMLResponse(page, headers={"Cache-Control": "no-cache"})

    def _specification(self) -> dict[str, Any]:
        paths: dict[str, dict[str, Any]] = {}
        for front in self._fronts:
            for each in front.endpoints():
                paths.setdefault(each.path, {}).update({m.lower(): each.operation(front) for m in each.methods})
        source, target = next(iter(self._service.registry.directions), ("en", "de"))
        # examples are in languages of this server
        text = json.dumps(paths, ensure_ascii=False).replace("{source}", source).replace("{target}", target)
        about = "Translations in the interfaces of LibreTranslate, DeepL and OpenAI."
        return {
            "openapi": "3.1.0",
            "info": {"title": "mtkit serve", "version": __version__, "description": about},
            "tags": [{"name": title} for title in dict.fromkeys(front.title for front in self._fronts)],
            "components": {"schemas": dict(front.error_schema for front in self._fronts)},
            "paths": json.loads(text),
        }

    async def metrics(self, request: Request) -> Response:
        """Metrics in the format of Prometheus."""
        return Response(generate_latest(self._service.metrics.registry), media_type="text/plain; version=0.0.4")


class _Errors:
    """Answers of errors in the shapes of the fronts."""

    def __init__(self, fronts: Sequence[Front]) -> None:
        self._fronts = fronts

    def answer(self, request: Request, error: RequestError) -> Response:
        """The answer of an error in the shape of the first front with the longest prefix of the path."""
        path = str(request.scope["path"])  # not of `request.url`, which the header Host can make invalid
        path = path.removeprefix(request.scope.get("root_path", ""))
        front = max(self._fronts, key=lambda each: len(each.prefix) if path.startswith(each.prefix) else 0)
        headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return JSONResponse(front.error_body(error), status_code=error.status, headers=headers)

    async def on_error(self, request: Request, error: Exception) -> Response:
        """The answer of an error that the request, the disk or the load causes; others are raised again."""
        if isinstance(error, RequestError):
            return self.answer(request, error)
        if isinstance(error, HTTPException):
            messages = {404: "no such path", 405: "the path has no such method"}
            message = messages.get(error.status_code, "the request cannot be answered")
            response = self.answer(request, RequestError(error.status_code, message))
            response.headers.update(error.headers or {})
            return response
        number = error.errno if isinstance(error, OSError) else None
        if number in FULL:
            return self.answer(request, RequestError(507, "the disk of the server is full"))
        if number in EXHAUSTED:
            return self.answer(request, RequestError(503, "the server has too much to do; try again", retry_after=5))
        raise error

    async def on_bug(self, request: Request, error: Exception) -> Response:
        """The answer of an error that should not be."""
        return self.answer(request, RequestError(500, "an error of the server; its log says more"))
