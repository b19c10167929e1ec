"""One request and its answer: its origin, size and time of its body, headers of the answer, a lost client.

A page of another site can make a browser send requests to a server of this machine or network: a form, whose Origin is
that site's, or requests to its own name after that name was changed to mean this address (DNS rebinding), which are in
the header Host. Browsers state both truthfully; programs send no Origin.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar, cast

from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mtkit.serve.clients import RequestError
from mtkit.serve.metrics import ServerMetrics
from mtkit.serve.settings import ServerSettings, is_local

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


_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/?#@\[\]\\]+?)\.?)(?::\d{1,5})?")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(.+)", re.IGNORECASE)
_READING = ("GET", "HEAD", "OPTIONS")  # methods that change nothing
CLIENT_BITS = 64  # of an address of IPv6, the rest of which one client chooses as it likes


class Sites:
    """The names and proxies of a server, by which requests are judged."""

    def __init__(self, settings: ServerSettings) -> None:
        self._networks, self._believes_host = settings.proxy_networks(), settings.trusted_proxies is not None
        self._is_open = not is_local(settings.host)
        self._allowed = {name.strip().lower() for name in settings.allowed_hosts.split(",") if name.strip()}
        self._names = {*self._allowed, settings.host.lower(), "localhost"}
        if self._is_open:
            self._names.add(socket.gethostname().lower())
        self._takes_any_name = "*" in self._allowed or (self._is_open and settings.keys is not None)
        self._client = functools.lru_cache(4096)(_client)
        self._is_own = functools.lru_cache(4096)(self._find_own)
        self._is_trusted = functools.lru_cache(4096)(self._find_trust)

    def _find_trust(self, address: str) -> bool:
        ip = _ip(address)
        return ip is not None and any(ip in network for network in self._networks)

    def judge(self, scope: Scope, headers: Mapping[bytes, bytes]) -> RequestError | None:
        """The error of a request that is not answered; others get their client behind the proxy.

        Of a name that is only accepted because a key is needed, the header is taken away, so that no link has it.
        """
        address = scope["client"][0] if scope["client"] else ""
        is_proxied = self._is_trusted(address) and b"x-forwarded-for" in headers
        if is_proxied:
            values = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
            address = self._client_before(values.decode("latin-1").split(",")) or address
            if headers.get(b"x-forwarded-proto") in (b"http", b"https"):
                scope["scheme"] = headers[b"x-forwarded-proto"].decode()
        scope["client"] = (self._client(address), 0)
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_own(host) and not (is_proxied and self._believes_host):
            if (name := _name(host)) is None:
                return RequestError(400, "Host: the name of a host is expected")
            if not self._takes_any_name:
                hint = "--allowed-hosts of mtkit serve adds names"
                return RequestError(421, f"Host: {name[:80]!r} is no name of this server; {hint}")
            scope["headers"] = [each for each in scope["headers"] if each[0] != b"host"]
        return None if scope["method"] in _READING else self._judge_origin(headers, host)

    def _judge_origin(self, headers: Mapping[bytes, bytes], host: str) -> RequestError | None:
        """The error of a request that a page of another site sends; None of a page of this server, or of a program."""
        site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin", b"").decode("latin-1")
        match = _ORIGIN.fullmatch(origin)
        if site is None and (not origin or (match and match[2].lower() == host.lower())):
            return None
        if site in (b"same-origin", b"none"):
            return None
        if match and (match[1].lower().endswith("-extension") or _name(match[2]) in self._allowed):
            return None
        stated = f"Origin: {origin[:80]!r}" if origin or site is None else f"Sec-Fetch-Site: {site.decode('latin-1')!r}"
        hint = "--allowed-hosts of mtkit serve adds sites"
        return RequestError(403, f"{stated} is another site, which may not write here; {hint}")

    def _find_own(self, host: str) -> bool:
        """Return whether no other site can have a name: that of the server, an address, or one without a domain."""
        if not host:  # as in HTTP 1.0
            return True
        if (name := _name(host)) is None:
            return False
        if (ip := _ip(name)) is not None:
            return self._is_open or ip.is_loopback or name in self._names
        return name in self._names or name.endswith(".localhost") or (self._is_open and "." not in name)

    def _client_before(self, addresses: list[str]) -> str | None:
        """The address that the first trusted proxy has seen; None if it is no address.

        Proxies add addresses at the end. Before an address of this machine nothing is believed: any client of a proxy
        on this machine may have written it.
        """
        for each in reversed(addresses):
            name = _name(each.strip()) or each.strip()
            ip = _ip(name)
            if ip is None:
                return None
            if ip.is_loopback or not self._is_trusted(name):
                return str(ip)
        return str(ip)


def _name(host: str) -> str | None:
    """The name or address of a host without its port; None if it is none."""
    match = _HOST.fullmatch(host)
    return None if match is None else (match[1] or match[2]).lower()


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return None
    return ip.ipv4_mapped or ip if isinstance(ip, ipaddress.IPv6Address) else ip


def _client(address: str) -> str:
    """The name of the client at an address: the network of an address of IPv6."""
    ip = _ip(address)
    if isinstance(ip, ipaddress.IPv6Address) and not ip.is_loopback:
        return str(ipaddress.ip_network((ip, CLIENT_BITS), strict=False))
    return address if ip is None else str(ip)
