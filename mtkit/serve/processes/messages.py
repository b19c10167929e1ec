"""Messages between the server and its worker processes: JSON after its length in four bytes."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any

_LENGTH = struct.Struct(">I")


def send(sock: socket.socket, message: Any) -> None:
    """Send a message over a blocking socket."""
    sock.sendall(_encode(message))


def receive(sock: socket.socket) -> Any:
    """Receive a message from a blocking socket; EOFError if the other side has closed it."""
    (length,) = _LENGTH.unpack(_read(sock, _LENGTH.size))
    return json.loads(_read(sock, length))


async def send_async(sock: socket.socket, message: Any) -> None:
    """Send a message over a socket that does not block."""
    await asyncio.get_running_loop().sock_sendall(sock, _encode(message))


async def receive_async(sock: socket.socket) -> Any:
    """Receive a message from a socket that does not block; EOFError if the other side has closed it."""
    (length,) = _LENGTH.unpack(await _read_async(sock, _LENGTH.size))
    return json.loads(await _read_async(sock, length))


def _encode(message: Any) -> bytes:
    content = json.dumps(message, separators=(",", ":")).encode("ascii")
    return _LENGTH.pack(len(content)) + content


def _read(sock: socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        if not (chunk := sock.recv(min(size - len(content), 1 << 20))):
            raise EOFError
        content += chunk
    return bytes(content)


async def _read_async(sock: socket.socket, size: int) -> bytes:
    content, loop = bytearray(), asyncio.get_running_loop()
    while len(content) < size:
        if not (chunk := await loop.sock_recv(sock, min(size - len(content), 1 << 20))):
            raise EOFError
        content += chunk
    return bytes(content)
