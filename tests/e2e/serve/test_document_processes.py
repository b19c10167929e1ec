"""Documents that take long: the server answers others, and SIGTERM ends it."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.e2e.serve.conftest import running
from tests.e2e.serve.test_hostile_clients import head, received


@pytest.mark.whole
def test_the_server_ends_during_a_document(models: dict[str, Path]) -> None:
    with running(str(models["en-de"]), "--workers", "1") as server:
        content = "".join(f"<p>the dog {number} sees a cat</p>" for number in range(40_000))
        files = {"file": ("a.html", content)}
        state = server.client.post("/documents", data={"source": "en", "target": "de"}, files=files).json()
        assert server.translate(q="the dog").status_code == 200
        assert not server.client.get(f"/documents/{state['id']}").json()["done"]
        begun = time.monotonic()
        code, text = server.stop(timeout=120)
        assert (code, "Traceback" in text) == (0, False)
        assert time.monotonic() - begun < 60


@pytest.mark.whole
def test_those_who_wait_when_the_server_ends_get_an_answer(models: dict[str, Path]) -> None:
    """A client that waits for its document, and one that has not sent all of its request."""
    with running(str(models["en-de"]), "--workers", "1", "--timeout", "1") as server, ThreadPoolExecutor() as pool:
        files = {"file": ("a.html", "".join(f"<p>the dog {number} sees a cat</p>" for number in range(40_000)))}
        fields = {"source": "en", "target": "de"}
        answer = pool.submit(httpx.post, f"{server.url}/translate_file", data=fields, files=files, timeout=120)
        with socket.create_connection((server.host, server.port), 60) as sock:
            sock.sendall(head("/translate", 1000, "Content-Type: application/json") + b"{")
            server.client.get("/health")
            time.sleep(1)
            code, log = server.stop(timeout=120)
            assert received(sock).startswith(b"HTTP/1.1 503")
        assert answer.result().status_code == 503
    assert (code, "Traceback" in log) == (0, False)
    assert log.count("\n") == len(server.lines) + 1, log  # that it waits no longer
