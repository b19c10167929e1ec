"""Messages between the server and its worker processes: JSON after its length in four bytes.

Both sides take turns, so that at most one message is on its way.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any

CHUNK = 1 << 20  # bytes
_LENGTH = struct.Struct(">I")


def send(sock: socket.socket, message: Any) -> None:
    """Send a message over a blocking socket."""
    sock.sendall(_encode(message))


def receive(sock: socket.socket) -> Any:
    """Receive the one message that is on its way over a blocking socket; EOFError if the other side has closed it."""
    content = bytearray()
    while not _is_complete(content):
        if not (chunk := sock.recv(CHUNK)):
            raise EOFError
        content += chunk
    return json.loads(content[_LENGTH.size :])


async def send_async(sock: socket.socket, message: Any) -> None:
    """Send a message over a socket that does not block."""
    await asyncio.get_running_loop().sock_sendall(sock, _encode(message))


async def receive_async(sock: socket.socket) -> Any:
    """Receive the one message that is on its way over a socket that does not block; EOFError as `receive`."""
    content, loop = bytearray(), asyncio.get_running_loop()
    while not _is_complete(content):
        if not (chunk := await loop.sock_recv(sock, CHUNK)):
            raise EOFError
        content += chunk
    return json.loads(content[_LENGTH.size :])


def _encode(message: Any) -> bytes:
    content = json.dumps(message, separators=(",", ":")).encode("ascii")
    return _LENGTH.pack(len(content)) + content


def _is_complete(content: bytearray) -> bool:
    return len(content) >= _LENGTH.size and len(content) >= _LENGTH.size + _LENGTH.unpack_from(content)[0]
