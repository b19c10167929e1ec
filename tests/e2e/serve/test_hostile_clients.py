"""Clients without a key, pages of other sites, clients that close a side, and a server without descriptors."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.serve.conftest import Server, running
from tests.e2e.serve.test_lifetime import wait_until

FIELDS = {"source": "en", "target": "de"}
KEY = "right-key-1"


@pytest.fixture(scope="module")
def guarded(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with keys and suggestions."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys").write_text(f"{KEY}\n")
    words = ["--keys", str(folder / "keys"), "--suggestions", str(folder / "a.tmx"), "--workers", "1"]
    with running(str(models["en-de"]), *words) as server:
        yield server


def head(path: str, length: int, *lines: str) -> bytes:
    first = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
    return (first + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode()


def request(text: str, *, path: str = "/translate") -> bytes:
    body = json.dumps({"q": text, **FIELDS}).encode()
    return head(path, len(body), "Content-Type: application/json") + body


def received(sock: socket.socket) -> bytes:
    """All until the server closes the connection."""
    return b"".join(iter(lambda: sock.recv(1 << 16), b""))


def memory(server: Server) -> int:
    """The most bytes that the server has had."""
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())[0])


@pytest.mark.whole
def test_the_key_comes_before_the_body(guarded: Server) -> None:
    json_type = {"content-type": "application/json"}
    for path in ("/translate", "/translate_file", "/documents", "/v2/translate", "/v2/document", "/suggest"):
        for headers in ({"authorization": "Bearer wrong"}, {"authorization": "DeepL-Auth-Key wrong"}):
            response = guarded.client.post(path, content=b"{", headers={**json_type, **headers})
            assert response.status_code in (403, 429)  # and not 400: the body was not read
        assert guarded.client.post(path, content=b"[" * 5000, headers=json_type).status_code == 403
        assert guarded.client.post(path, content=b"[" * 2_000_000, headers=json_type).status_code == 413
    form = {"q": "the dog", **FIELDS, "api_key": KEY}
    files = {"file": ("a.html", b"<p>the dog</p>")}
    assert guarded.client.post("/translate", data=form).status_code == 200
    assert guarded.client.post("/translate", json=form).status_code == 200
    assert guarded.client.post("/translate", params={"api_key": KEY}, json={"q": "a", **FIELDS}).status_code == 200
    assert guarded.client.post("/translate_file", data=form, files=files).status_code == 200
    first = [("file", ("a.html", b"<p>the dog</p>")), ("api_key", (None, KEY)), ("source", (None, "en"))]
    assert guarded.client.post("/translate_file", files=[*first, ("target", (None, "de"))]).status_code == 200
    assert guarded.client.post("/translate_file", data=FIELDS, files=files).status_code == 403
    long = {"file": ("a.html", b"x"), "target": (None, "x" * 2_000_000)}
    assert (
        guarded.client.post("/translate_file", files=long, headers={"authorization": f"Bearer {KEY}"}).status_code
        == 413
    )


@pytest.mark.whole
def test_clients_without_a_key_take_little_memory(guarded: Server) -> None:
    body = b'{"q": "a", "junk": [' + b"[]," * 300_000 + b"0]}"
    before = memory(guarded)
    with ExitStack() as stack:
        socks = [stack.enter_context(socket.create_connection((guarded.host, guarded.port), 20)) for _ in range(60)]
        for sock in socks:
            sock.setblocking(False)
            try:
                sock.sendall(head("/translate_file", len(body)) + body[:-1])
            except OSError:  # refused, or not read
                continue
        assert guarded.client.get("/health").status_code == 200
        answer = guarded.translate(q="the dog", api_key=KEY)
        assert answer.status_code in (200, 503)
        header = {"authorization": f"Bearer {KEY}"}
        assert guarded.client.post("/translate", json={"q": "the dog", **FIELDS}, headers=header).status_code == 200
    assert memory(guarded) - before < 150 << 20  # of 54 MB that were sent; parsed, they take 30 MB each
    wait_until(lambda: guarded.translate(q="the dog", api_key=KEY).status_code == 200)


@pytest.mark.whole
def test_other_sites_do_not_write(guarded: Server) -> None:
    form = {"q": "a", "s": "b", **FIELDS, "api_key": KEY}
    for headers, status in (
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "evil.example:5000"}, 421),
        ({"host": f"evil.example:{guarded.port}", "origin": f"http://evil.example:{guarded.port}"}, 421),
        ({"host": f"localhost:{guarded.port}", "origin": f"http://localhost:{guarded.port}"}, 200),
        ({"sec-fetch-site": "same-origin", "origin": guarded.url}, 200),
        ({}, 200),
    ):
        response = guarded.client.post("/suggest", data=form, headers=headers)
        assert response.status_code == status, headers
    files = {"file": ("a.html", b"<p>the dog</p>")}
    for host in ("evil.example", f"localhost:{guarded.port}"):
        response = guarded.client.post("/translate_file", data=form, files=files, headers={"host": host})
        assert "evil" not in response.json().get("translatedFileUrl", "")
        assert response.status_code == (421 if host == "evil.example" else 200)


def test_clients_that_close_their_side_are_answered(server: Server) -> None:
    for requests in ([request("the dog closes a side")], [request(f"the dog {number}") for number in range(30)]):
        with socket.create_connection((server.host, server.port), 60) as sock:
            sock.sendall(b"".join(requests))
            sock.shutdown(socket.SHUT_WR)
            answer = received(sock)
        assert answer.count(b"HTTP/1.1 200 OK\r\n") == len(requests)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.count(b'{"translatedText":') == len(requests)
    with socket.create_connection((server.host, server.port), 60) as sock:
        sock.sendall(request("the dog")[:-3])  # never whole
        sock.shutdown(socket.SHUT_WR)
        assert b" 200 " not in received(sock)


def test_answers_that_are_ready_when_the_client_closes_its_side_arrive(server: Server) -> None:
    """Answers from the cache come in the turn of the loop in which the end of the requests is seen."""
    for _ in range(20):
        with socket.create_connection((server.host, server.port), 60) as sock:
            sock.sendall(request("the dog") * 5)
            sock.shutdown(socket.SHUT_WR)
            assert received(sock).count(b"translatedText") == 5


@pytest.mark.whole
def test_requests_of_clients_that_have_gone_leave_the_queue(models: dict[str, Path]) -> None:
    with running(str(models["en-de"]), "--workers", "1", "--cache", "0", "--max-waiting", "4000000") as server:
        many = " . ".join(f"the dog {number}" for number in range(3000))
        with ExitStack() as stack:
            for _ in range(20):
                sock = stack.enter_context(socket.create_connection((server.host, server.port), 60))
                sock.sendall(request(many))
            wait_until(lambda: "mtkit_queue_texts 0.0" not in server.client.get("/metrics").text)
        wait_until(lambda: "mtkit_queue_texts 0.0" in server.client.get("/metrics").text, 30)
        assert server.translate(q="the dog").status_code == 200


@pytest.mark.whole
def test_requests_just_after_many_lost_ones_are_answered(models: dict[str, Path]) -> None:
    with running(str(models["en-de"]), "--workers", "1", "--timeout", "60") as server:
        expected = server.translate(q="the dog").json()
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        with ExitStack() as stack:
            for number in range(2300):
                sock = stack.enter_context(socket.create_connection((server.host, server.port), 60))
                sock.sendall(request(f"the dog {number} sees a cat"))
        with ThreadPoolExecutor(20) as pool:
            answers = [*pool.map(lambda _: server.translate(q="the dog"), range(200))]
        assert [each.status_code for each in answers] == [200] * 200
        assert all(each.json() == expected for each in answers)


@pytest.mark.whole
def test_a_server_without_descriptors_says_so_in_a_line(models: dict[str, Path]) -> None:
    with running(str(models["en-de"]), "--workers", "1") as server:
        open_files = len([*Path(f"/proc/{server.process.pid}/fd").iterdir()])
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (open_files + 20, 4000))
        with ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(socket.create_connection((server.host, server.port), 60))
            time.sleep(3)  # the server tries again each second
        wait_until(lambda: server.client.get("/health").status_code == 200)
        log = server.stop()[1]
    assert log.count("new connections wait: too many open files") == 1
    assert "Traceback" not in log
    assert len(log) < 2000


@pytest.mark.whole
def test_requests_that_are_not_http_or_not_forms_leave_the_log_alone(models: dict[str, Path]) -> None:
    """The sentences of the libraries are warnings, one for each request."""
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: a", "Sec-WebSocket-Version: 13")
    form = b"no boundary"
    hostile = [
        b"\x16\x03\x01\r\n\r\n",
        b"GET / HTTP/9\r\nHost: localhost\r\n\r\n",
        head("/translate", 0, "Content-Length: 5"),
        head("/translate", 0, *upgrade),
        head("/translate_file", len(form), "Content-Type: multipart/form-data; boundary=b") + form,
    ]
    with running(str(models["en-de"]), "--workers", "1") as server:
        expected = len(server.lines)
        for content in hostile:
            with socket.create_connection((server.host, server.port), 60) as sock:
                sock.sendall(content)
                assert sock.recv(1 << 16).startswith(b"HTTP/1.1 400")
        assert server.translate(q="the dog").status_code == 200
        log = server.stop()[1]
    assert log.count("\n") == expected, log


@pytest.mark.whole
def test_a_model_that_cannot_start_again_is_in_the_log_and_in_the_health(
    models: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "again"
    shutil.copytree(models["en-de"], folder)
    with running(str(folder), "--workers", "1", "--timeout", "2") as server:
        assert server.client.get("/health").json() == {"status": "ok"}
        weights = folder / "model.safetensors"
        content = weights.read_bytes()
        weights.unlink()
        for process in (*server.children(), *server.workers()):
            os.kill(process, signal.SIGKILL)
        server.translate(q="the dog")
        wait_until(lambda: server.client.get("/health").status_code == 503)
        assert server.client.get("/health").json()["error"] == "again: cannot be started; the log says why"
        weights.write_bytes(content)
        wait_until(lambda: server.client.get("/health").json() == {"status": "ok"})
        assert server.translate(q="the dog").status_code == 200
        log = server.stop()[1]
    assert "cannot be started again, so that its requests wait: " in log
    assert ": started again" in log
