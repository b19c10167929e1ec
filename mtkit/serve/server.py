"""The server process: listens, exchanges models at SIGHUP, and finishes what it has accepted at SIGTERM."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import resource
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from mtkit.errors import ReadWriteError
from mtkit.serve.fronts.app import EXHAUSTED, build_app
from mtkit.serve.settings import ServerSettings, is_local

HEAD_SECONDS = 20.0  # for the head of a request
WRITE_SECONDS = 30.0  # without a byte that the client reads
KEEP_ALIVE_SECONDS = 30
MAX_NAMED = 8  # directions that are named when the server begins
MAX_HEAD = 32 << 10  # bytes
MAX_CONNECTIONS = 2000
CROWDED_SECONDS = 0.25  # that a connection beyond them waits, in which those that have ended are taken away
BACKLOG = 2048
OTHER_FILES = 500  # that may be open beside connections
MAX_FILES = MAX_CONNECTIONS + BACKLOG + OTHER_FILES  # also before connections are refused
PROBE_SECONDS = 0.05  # after which a client that has closed its side is looked for again, then twice as long each time
NOTE_SECONDS = 60.0  # between two lines of the log that say the same


class _JoinedWrites:
    """A transport that sends at once what is written in one turn of the loop: head and body of an answer.

    The beginning of an answer can be sent before the answer is there, since all have the same.
    """

    _BEGINNING = b"HTTP/1.1 "

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []
        self._early = 0  # bytes of the next answer that are sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes after the present turn."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data[self._early :])
        self._early = 0

    def write_early(self) -> bool:
        """Send one byte more of the next answer; False if the rest of it is not known yet."""
        self._flush()  # the end of the answer before
        byte = self._BEGINNING[self._early : self._early + 1]
        self._early += len(byte)
        self._transport.write(byte)
        return bool(byte)

    def close(self) -> None:
        """Send what is written, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        self._transport.write(b"".join(self._parts))
        self._parts.clear()


class ServerConnection(H11Protocol):
    """A connection that ends if its client sends no complete head, or does not read.

    A client may close its side when it has sent its request. One that has closed its connection as a whole looks the
    same until bytes are sent to it, to which its system answers with a reset.
    """

    max_connections = MAX_CONNECTIONS
    _timer: asyncio.TimerHandle | None = None
    _has_ended = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; called by asyncio."""
        self._writes = _JoinedWrites(transport, self.loop)
        super().connection_made(cast("asyncio.Transport", self._writes))
        if len(self.connections) > self.max_connections:  # of which some may be lost
            self.flow.pause_reading()
            self.loop.call_later(CROWDED_SECONDS, self._refuse_if_crowded)
        self._set_timer(HEAD_SECONDS)

    def _refuse_if_crowded(self) -> None:
        connections = cast("set[ServerConnection]", self.connections)
        if sum(not each._has_ended for each in connections) > self.max_connections:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.flow.resume_reading()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection while requests that have come in full have no answer; called by asyncio."""
        is_answered = self.cycle is None or self.cycle.response_complete or self.cycle.more_body
        if not is_answered and not self._has_ended:
            self._has_ended = True
            self._probe(PROBE_SECONDS)
        if is_answered:
            self._writes.close()  # asyncio would close without what was written in this turn
        return not is_answered

    def _probe(self, seconds: float) -> None:
        """Abort the connection if its client has gone; otherwise look again while its answer has not begun."""
        if self.transport.is_closing() or self.cycle.response_complete:
            return
        if self.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
        elif not self.cycle.response_started and self._writes.write_early():
            self.loop.call_later(seconds, self._probe, 2 * seconds)

    def on_response_complete(self) -> None:
        """Go on with the next request; called by uvicorn."""
        super().on_response_complete()
        if self._has_ended and (self.cycle.response_complete or self.cycle.more_body):
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Take bytes; called by asyncio."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None:
            self._set_timer(HEAD_SECONDS)

    def pause_writing(self) -> None:
        """Wait for the client to read; called by asyncio."""
        super().pause_writing()
        self._set_timer(WRITE_SECONDS)

    def resume_writing(self) -> None:
        """Go on; called by asyncio."""
        super().resume_writing()
        self._stop_timer()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also if its client does not read the end of an answer."""
        super().timeout_keep_alive_handler()
        self._set_timer(WRITE_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; called by asyncio."""
        self._stop_timer()
        super().connection_lost(exc)

    def _set_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):
    """A server whose signals are ours."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle signals while the server runs; called by uvicorn.

        From its end on SIGTERM and SIGHUP have no effect, because models and documents are still to be closed. SIGTERM
        is not the loop's: at its end the system's handler would come back for a moment, which ends the process at once.
        """
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.handle_exit, signal.SIGINT, None)
        signal.signal(signal.SIGTERM, self.handle_exit)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)  # a second Ctrl-C ends at once
            loop.remove_signal_handler(signal.SIGHUP)  # of `serve`
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)


def serve(settings: ServerSettings, note: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; a second Ctrl-C ends at once.

    Args:
        settings: of the server.
        note: receives messages for the log.

    Raises:
        MtkitError: a model cannot be loaded, a file is damaged, or the address cannot be used.
    """
    app, registry, jobs = build_app(settings, note)
    config = uvicorn.Config(
        app,
        http=ServerConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        root_path=settings.root_path,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(settings.timeout) + 5,
        h11_max_incomplete_event_size=MAX_HEAD,
    )
    tasks: set[asyncio.Task[None]] = set()

    def reload() -> None:
        task = asyncio.get_running_loop().create_task(registry.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def run(sock: socket.socket) -> None:
        host, port = sock.getsockname()[:2]
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, reload)
        loop.set_exception_handler(_ExhaustionNotes(note))
        logging.disable(logging.WARNING)  # libraries' warnings of requests, with which any client could fill the log
        try:
            await registry.preload()
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}{settings.root_path}"
            pairs = [*registry.directions]
            source, target = pairs[0]
            more = f" and {len(pairs) - MAX_NAMED:,} more" * (len(pairs) > MAX_NAMED)
            note(f"translates {', '.join(f'{src}-{tgt}' for src, tgt in pairs[:MAX_NAMED])}{more}; {url}/ is a page")
            note(f"try: curl {url}/translate -d q=TEXT -d source={source} -d target={target}")
            note(f"listening at {url}")
            await _Server(config).serve(sockets=[sock])
        finally:
            await jobs.close()
            await registry.close()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    ServerConnection.max_connections = min(MAX_CONNECTIONS, max(wanted - OTHER_FILES, wanted // 2))
    with _listen(settings) as sock:
        if not is_local(settings.host) and settings.keys is None:
            note("everybody who reaches this address can translate: no keys are asked for")
        asyncio.run(run(sock))


class _ExhaustionNotes:
    """Handler of errors of the loop: a lack of descriptors or memory is a line of the log, at most one a minute.

    asyncio reports it for each connection that could be accepted, thousands of times a second.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note, self._noted = note, -math.inf

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report an error; called by asyncio."""
        error = context.get("exception")
        if "_start_serving" in context["message"]:  # asyncio tries again after the end of the server
            return
        if not isinstance(error, OSError) or error.errno not in EXHAUSTED:
            loop.default_exception_handler(context)
        elif loop.time() - self._noted > NOTE_SECONDS:
            self._noted = loop.time()
            reason = os.strerror(error.errno or 0).lower()
            self._note(f"new connections wait: {reason}; raise the limit (ulimit -n), or let fewer clients connect")


def _listen(settings: ServerSettings) -> socket.socket:
    """The socket at which the server listens.

    Raises:
        ReadWriteError: the address is in use, or not one of this machine.
    """
    try:
        families = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = families[0]
        # "::" stands for the addresses of both families, where a socket can have both
        has_both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=BACKLOG, dualstack_ipv6=has_both)
    except OSError as error:
        hint = "; choose another --port" if error.errno == errno.EADDRINUSE else ""
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else "no such address"
        raise ReadWriteError(f"serve: {settings.host}:{settings.port}: {reason}{hint}") from error
