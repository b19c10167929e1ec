"""One request and its answer: size and time of the body, headers of the answer, a client that vanishes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mtkit.serve.metrics import ServerMetrics
from mtkit.serve.request_error import RequestError

T = TypeVar("T")
BODY_SECONDS = 30.0  # between two parts of a body, and for a body as a whole beside a second for each BODY_RATE bytes
BODY_RATE = 10_000
CLOSED = 499  # status in the metrics of a request whose client has gone
_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Exchange:
    """Middleware that limits bodies, adds headers of security, and counts requests."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        endpoint: Callable[[str], str],
        max_body: Callable[[str], int],
        metrics: ServerMetrics,
        log: Callable[[str], None],
    ) -> None:
        """Take what is inside.

        Args:
            app: the routes.
            endpoint: name of a path in the metrics.
            max_body: bytes that a request for a path may have.
            metrics: counts the requests.
            log: receives a line for each request.
        """
        self._app, self._endpoint, self._max_body, self._metrics, self._log = app, endpoint, max_body, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; called by the server."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), CLOSED
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
        body = _Body(receive, self._max_body(path), dict(scope["headers"]))

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                message["headers"] = [*message["headers"], *_HEADERS, *body.headers()]
            await send(message)

        try:
            await self._app(scope, body.receive, send_with_headers)
        except ClientDisconnect:
            pass
        finally:
            endpoint, seconds = self._endpoint(path), time.perf_counter() - begun
            self._metrics.requests.labels(endpoint, str(status)).inc()
            self._metrics.request_seconds.labels(endpoint).observe(seconds)
            self._log(f"{scope['method']} {endpoint} {status} {seconds:.3f} s")


class _Body:
    """The body of a request, which may be too long or come too slowly."""

    def __init__(self, receive: Receive, max_bytes: int, headers: Mapping[bytes, bytes]) -> None:
        self._receive, self._max_bytes, self._length = receive, max_bytes, headers.get(b"content-length", b"")
        self._has_two_lengths = self._length != b"" and b"transfer-encoding" in headers
        self._bytes = 0
        self._deadline = time.monotonic() + BODY_SECONDS + max_bytes / BODY_RATE
        self._is_complete = False

    async def receive(self) -> Message:
        """The next message.

        Raises:
            RequestError: the body is too long (413) or too slow (408).
        """
        if self._is_complete:
            return await self._receive()
        if self._length.isdigit() and int(self._length[:20]) > self._max_bytes:
            raise self._too_long()
        try:
            async with asyncio.timeout(min(BODY_SECONDS, self._deadline - time.monotonic())):
                message = await self._receive()
        except TimeoutError as error:
            raise RequestError(408, "the body of the request comes too slowly") from error
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._max_bytes:
            raise self._too_long()
        self._is_complete = not message.get("more_body", False)
        return message

    def _too_long(self) -> RequestError:
        return RequestError(413, f"the request has more than {self._max_bytes:,} bytes")

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers of an answer, after which the connection is closed if it is of no use: if the request is not read,
        or if it has two lengths, of which a proxy may have chosen the other one (RFC 9112, sec. 6.1)."""
        is_read = self._is_complete or self._length in (b"", b"0")
        return [] if is_read and not self._has_two_lengths else [(b"connection", b"close")]


async def while_connected(request: Request, work: Coroutine[Any, Any, T], *, timeout: float) -> T:
    """The result of work for a client, which ends when the client goes.

    Raises:
        RequestError: it takes longer than `timeout` seconds (503).
        ClientDisconnect: the client has gone.
    """
    limit = asyncio.timeout(timeout)
    watcher = asyncio.create_task(_watch_connection(request, limit))
    try:
        async with limit:
            return await work
    except TimeoutError as error:
        if watcher.done():
            raise ClientDisconnect from error
        message = f"the translation took more than {timeout:g} s; try again, or send less"
        raise RequestError(503, message, retry_after=10) from error
    finally:
        watcher.cancel()


async def _watch_connection(request: Request, limit: asyncio.Timeout) -> None:
    """End the time of a request when its client goes."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    if not limit.expired():  # the time may have ended in this moment, and cannot be changed then
        limit.reschedule(asyncio.get_running_loop().time())
