"""The application: all routes with their headers, limits and errors."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mtkit.serve.clients import Clients, read_keys
from mtkit.serve.core import TranslationService
from mtkit.serve.fronts.deepl import DeepL
from mtkit.serve.fronts.document_jobs import DocumentJobs, Files
from mtkit.serve.fronts.exchange import Exchange
from mtkit.serve.fronts.libretranslate import LibreTranslate, Suggestions
from mtkit.serve.fronts.page import Page
from mtkit.serve.fronts.sites import Sites
from mtkit.serve.metrics import ServerMetrics
from mtkit.serve.registry import Registry
from mtkit.serve.request_error import RequestError
from mtkit.serve.settings import ServerSettings

FORM_BYTES = 64 << 10  # of a request beside its texts or its file
BYTES_PER_CHARACTER = 12  # of a text in JSON, where each half of a character beyond the first 65,536 takes six


class Application(NamedTuple):
    """The application, its models, and its documents."""

    app: Starlette
    registry: Registry
    jobs: DocumentJobs


def build_app(settings: ServerSettings, note: Callable[[str], None]) -> Application:
    """The application of a server.

    Args:
        settings: of the server.
        note: receives messages for the log.

    Raises:
        MtkitError: a model or the file of keys is missing or damaged.
    """
    metrics = ServerMetrics()
    registry = Registry(settings, metrics, note)
    service = TranslationService(settings, registry, metrics, note)
    clients = Clients(None if settings.keys is None else read_keys(settings.keys), settings.max_requests)
    _add_gauges(metrics, registry)

    async def show_metrics(request: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    jobs = DocumentJobs(service)
    routes = [
        *LibreTranslate(service, clients).routes(),
        *Files(service, clients, jobs).routes(),
        *Page(service, clients).routes(),
        *DeepL(service, clients, jobs).routes(),
        Route("/metrics", show_metrics, methods=["GET"]),
    ]
    if settings.suggestions is not None:
        routes += Suggestions(settings.suggestions, service, clients, note).routes()
    paths = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", each.path)), each.path) for each in routes]

    def endpoint(path: str) -> str:
        return next((name for pattern, name in paths if pattern.fullmatch(path)), "other")

    def max_body(path: str, has_files: bool) -> int:
        of_texts = BYTES_PER_CHARACTER * settings.max_characters
        return FORM_BYTES + (settings.max_file_bytes if has_files and path in FILE_PATHS else of_texts)

    exchange = Middleware(
        Exchange,
        sites=Sites(settings),
        refuse=_answer,
        endpoint=endpoint,
        max_body=max_body,
        metrics=metrics,
        log=(lambda line: None) if settings.log == "errors" else note,
    )
    handlers = {
        RequestError: _on_error,
        HTTPException: _on_http_error,
        OSError: _on_system_error,
        Exception: _on_bug,
    }
    app = Starlette(routes=routes, middleware=[exchange], exception_handlers=handlers)
    return Application(app, registry, jobs)


EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FILE_PATHS = ("/translate_file", "/documents", "/v2/document")


def _add_gauges(metrics: ServerMetrics, registry: Registry) -> None:
    models = registry.models
    metrics.gauge("mtkit_queue_texts", "Texts that wait for a worker.", lambda: sum(m.queue.count for m in models))
    metrics.gauge(
        "mtkit_queue_characters", "Characters that wait for a worker.", lambda: sum(m.queue.waiting for m in models)
    )
    metrics.gauge(
        "mtkit_models_memory_bytes", "Memory of the models.", lambda: sum(m.pool.memory() for m in models if m.pool)
    )


def _answer(request: Request, error: RequestError) -> Response:
    path = str(request.scope["path"])  # not of `request.url`, which the header Host can make invalid
    key = "message" if path.removeprefix(request.scope.get("root_path", "")).startswith("/v2/") else "error"
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return JSONResponse({key: str(error)}, status_code=error.status, headers=headers)


async def _on_error(request: Request, error: Exception) -> Response:
    return _answer(request, error if isinstance(error, RequestError) else RequestError(500, str(error)))


async def _on_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    messages = {404: "no such path", 405: "the path has no such method"}
    response = _answer(request, RequestError(status, messages.get(status, "the request cannot be answered")))
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


async def _on_system_error(request: Request, error: Exception) -> Response:
    number = error.errno if isinstance(error, OSError) else None
    if number in FULL:
        return _answer(request, RequestError(507, "the disk of the server is full"))
    if number in EXHAUSTED:
        return _answer(request, RequestError(503, "the server has too much to do; try again", retry_after=5))
    raise error


async def _on_bug(request: Request, error: Exception) -> Response:
    return _answer(request, RequestError(500, "an error of the server; its log says more"))
