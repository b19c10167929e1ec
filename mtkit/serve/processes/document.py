"""Process that reads and writes a document, `python -m mtkit.serve.processes.document FD`, for the server.

Whatever a document asks of its reader, the server meanwhile answers others, and can end this process. It ends when the
server closes its socket, or after its time; signals are the server's to handle. Each message is answered by the server.
"""

from __future__ import annotations

import resource
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from mtkit.documents.format import format_of
from mtkit.documents.translate import translate_document
from mtkit.errors import MtkitError
from mtkit.serve.processes.messages import receive, send
from mtkit.signals import HANDLED

WINDOW = 100  # lines of a document that wait in the queue together
WINDOW_CHARACTERS = 50_000


class DocumentLine(NamedTuple):
    """The translation of a line."""

    hyp: str
    alignment: tuple[tuple[int, int], ...] = ()
    flags: tuple[str, ...] = ()


def main() -> None:
    """Translate one document."""
    for number in HANDLED:
        signal.signal(number, signal.SIG_IGN)
    sock = socket.socket(fileno=int(sys.argv[1]))
    with suppress(EOFError, OSError):
        job = receive(sock)
        resource.setrlimit(resource.RLIMIT_CPU, (job["seconds"], job["seconds"]))  # also if the server was killed
        try:
            _translate(sock, job)
        except MtkitError as error:
            send(sock, {"error": str(error)})
        else:
            send(sock, {"done": True})


def _translate(sock: socket.socket, job: dict[str, Any]) -> None:
    """Translate a document first with its own lines, to check and to count it."""
    count = characters = 0
    beginning: list[str] = []

    def counted(lines: Iterable[str]) -> Iterator[DocumentLine]:
        nonlocal count, characters
        for line in lines:
            count += 1
            if characters < job["beginning"]:
                beginning.append(line)
            characters += len(line)
            yield DocumentLine(line)

    def translated(lines: Iterable[str]) -> Iterator[DocumentLine]:
        for window in _windows(lines):
            send(sock, {"window": window})
            for hyp, alignment, flags in receive(sock):
                yield DocumentLine(hyp, tuple((s, t) for s, t in alignment), tuple(flags))

    source, output, src_lang = Path(job["source"]), Path(job["output"]), job["src_lang"]
    for translate in (counted, translated):
        translate_document(source, output, format_of(source, src_lang=src_lang, tgt_lang=job["tgt_lang"]), translate)
        if translate is counted:
            send(sock, {"lines": count, "characters": characters, "beginning": "\n".join(beginning)})
            src_lang = receive(sock)


def _windows(lines: Iterable[str]) -> Iterator[list[str]]:
    window: list[str] = []
    size = 0
    for line in lines:
        window.append(line)
        size += len(line)
        if len(window) == WINDOW or size >= WINDOW_CHARACTERS:
            yield window
            window, size = [], 0
    if window:
        yield window


if __name__ == "__main__":
    main()
