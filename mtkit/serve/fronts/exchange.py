"""One request and its answer: its origin, size and time of its body, headers of the answer, a lost client."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar, cast

from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mtkit.serve.fronts.sites import Sites
from mtkit.serve.metrics import ServerMetrics
from mtkit.serve.request_error import RequestError

T = TypeVar("T")
BODY_SECONDS = 30.0  # between two parts of a body, and for a body as a whole beside a second for each BODY_RATE bytes
BODY_RATE = 10_000
BODIES_BYTES = 256 << 20  # of all bodies at once, on disk or in memory
UNKNOWN_BYTES = 64 << 20  # of those whose clients are not known to have a key
UNCOUNTED_BYTES = 4 << 10  # of a body that is too short to count
DRAINED_BYTES = 64 << 10  # of a body that is read although its request is refused, so that the connection stays
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
        sites: Sites,
        refuse: Callable[[Request, RequestError], Response],
        endpoint: Callable[[str], str],
        max_body: Callable[[str, bool], int],
        metrics: ServerMetrics,
        log: Callable[[str], None],
    ) -> None:
        """Take what is inside.

        Args:
            app: the routes.
            sites: judges where a request comes from.
            refuse: makes the answer of an error.
            endpoint: name of a path in the metrics.
            max_body: bytes that a request for a path may have, as a form with files or as something else.
            metrics: counts the requests.
            log: receives a line for each request.
        """
        self._app, self._sites, self._refuse = app, sites, refuse
        self._endpoint, self._max_body, self._metrics, self._log = endpoint, max_body, metrics, log
        self._bodies, self._unknown_bodies = Bodies(BODIES_BYTES), Bodies(UNKNOWN_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; called by the server."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, is_ending = time.perf_counter(), CLOSED, False
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
        headers = dict(scope["headers"])
        error = self._sites.judge(scope, headers)
        max_bytes = self._max_body(path, headers.get(b"content-type", b"").lower().startswith(b"multipart/"))
        body = Body(receive, max_bytes, headers, known=self._bodies, unknown=self._unknown_bodies)
        body.max_text_bytes = self._max_body(path, False)
        scope["mtkit.body"] = body

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                if not body.is_complete and not is_ending:
                    await body.drain()
                message["headers"] = [*message["headers"], *_HEADERS, *body.headers()]
            await send(message)

        try:
            app = self._app if error is None else self._refuse(Request(scope), error)
            await app(scope, body.receive, send_with_headers)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # the server ends, and has waited for its answers as long as it may
            is_ending = True
            if status == CLOSED:
                ended = RequestError(503, "the server has ended; try again", retry_after=10)
                await self._refuse(Request(scope), ended)(scope, body.receive, send_with_headers)
        finally:
            body.close()
            endpoint, seconds = self._endpoint(path), time.perf_counter() - begun
            self._metrics.requests.labels(endpoint, str(status)).inc()
            self._metrics.request_seconds.labels(endpoint).observe(seconds)
            self._log(f"{scope['method']} {endpoint} {status} {seconds:.3f} s")


class Bodies:
    """Bytes of the bodies of all clients, which have a bound; half of it is the most that one client has."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._of_client: Counter[str] = Counter()

    def add(self, client: str, change: int, *, max_body: int) -> None:
        """Count bytes that come or go; RequestError with status 503 if there are too many. Two bodies always fit."""
        bound, of_client = max(self._max_bytes, 2 * max_body), self._of_client[client] + change
        if change > 0 and (self._bytes + change > bound or of_client > bound // 2):
            raise RequestError(503, "the requests that are being read are too long together; try again", retry_after=5)
        self._bytes += change
        self._of_client[client] = of_client
        if not of_client:
            del self._of_client[client]


class Body:
    """The body of a request, which may be too long or come too slowly, and what is held of it.

    Attributes:
        max_text_bytes: that it may have beside files.
        is_complete: whether it was read to its end.
        uploads: its files, which are closed with it.
    """

    def __init__(
        self, receive: Receive, max_bytes: int, headers: Mapping[bytes, bytes], *, known: Bodies, unknown: Bodies
    ) -> None:
        self._receive, self._max_bytes, self._length = receive, max_bytes, headers.get(b"content-length", b"")
        self._known, self._unknown, self._bodies, self._client, self._held = known, unknown, unknown, "", 0
        self.max_text_bytes, self.uploads = max_bytes, cast("list[UploadFile]", [])
        self._has_two_lengths = self._length != b"" and b"transfer-encoding" in headers
        self._bytes = 0
        self._deadline = time.monotonic() + BODY_SECONDS + max_bytes / BODY_RATE
        self.is_complete = False

    async def receive(self) -> Message:
        """The next message.

        Raises:
            RequestError: the body is too long (413) or too slow (408).
        """
        if self.is_complete:
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
        if self._bytes > UNCOUNTED_BYTES:
            self.hold(self._bytes)
        self.is_complete = not message.get("more_body", False)
        return message

    def hold(self, count: int) -> None:
        """Count the bytes that are held of a body now; RequestError if those of all bodies are too many."""
        if count != self._held:
            self._bodies.add(self._client, count - self._held, max_body=self._max_bytes)
            self._held = count

    def set_client(self, client: str, *, is_known: bool) -> None:
        """Count the body as that of a client, which is known or only an address."""
        held = self._held
        self.hold(0)
        self._client, self._bodies = client, self._known if is_known else self._unknown
        self.hold(held)

    async def drain(self) -> None:
        """Read the rest of a short body that is not needed."""
        with suppress(RequestError):
            while not self.is_complete and self._length.isdigit() and 0 < int(self._length[:20]) <= DRAINED_BYTES:
                if (await self.receive())["type"] == "http.disconnect":
                    return

    def close(self) -> None:
        """Let go of what is held."""
        self.hold(0)
        for upload in self.uploads:
            upload.file.close()

    def _too_long(self) -> RequestError:
        return RequestError(413, f"the request has more than {self._max_bytes:,} bytes")

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers of an answer, after which the connection is closed if it is of no use: if the request is not read,
        or if it has two lengths, of which a proxy may have chosen the other one (RFC 9112, sec. 6.1)."""
        is_read = self.is_complete or self._length in (b"", b"0")
        return [] if is_read and not self._has_two_lengths else [(b"connection", b"close")]


def body_of(request: Request) -> Body:
    """The body of a request."""
    return cast(Body, request.scope["mtkit.body"])


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
