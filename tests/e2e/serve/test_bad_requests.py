"""Requests that are wrong get a status, one sentence, and leave the server as it was."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from tests.e2e.serve.conftest import Server

GOOD = {"q": "the dog", "source": "en", "target": "de"}


@pytest.mark.whole
@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"q": None}, 400, "q is missing"),
        ({"q": 7}, 400, "q: a text"),
        ({"q": []}, 400, "q is empty"),
        ({"q": [["a"]]}, 400, "q: a text"),
        ({"q": {"a": "b"}}, 400, "q: a text"),
        ({"q": ["a"] * 1001}, 400, "at most 1,000"),
        ({"q": "x" * 20_001}, 413, "20,000"),
        ({"q": ["x" * 300] * 100}, 413, "30,000 characters"),
        ({"source": None}, 400, "source is missing"),
        ({"source": "xx"}, 400, "source: 'xx' is not supported"),
        ({"source": ["en"]}, 400, "source: a text"),
        ({"target": "../../etc/passwd"}, 400, "target: '../../etc/passwd' is not"),
        ({"target": "e" * 5000}, 400, "is not supported"),
        ({"target": "auto"}, 400, "target"),
        ({"format": "docx"}, 400, "format"),
        ({"alternatives": -1}, 400, "alternatives"),
        ({"alternatives": 11}, 400, "alternatives"),
        ({"alternatives": True}, 400, "alternatives"),
        ({"alternatives": 1.5}, 400, "alternatives"),
        ({"alternatives": 10**400}, 400, "alternatives"),
        ({"alternatives": "²"}, 400, "alternatives"),
        ({"model": "../x"}, 400, "model"),
        ({"glossary": "a"}, 400, "glossary"),
        ({"glossary": [["a", "b"], ["A", "c"]]}, 400, "glossary"),
        ({"glossary": [["", "b"]]}, 400, "glossary"),
        ({"glossary": [["a", None]]}, 400, "glossary"),
        ({"glossary": [["a", "x" * 300]]}, 400, "glossary"),
        ({"api_key": 5}, 400, "api_key"),
    ],
)
def test_fields(server: Server, change: dict[str, Any], status: int, words: str) -> None:
    response = server.client.post("/translate", json={**GOOD, **change})
    assert response.status_code == status
    assert words in response.json()["error"]
    assert "\n" not in response.json()["error"]
    assert len(response.json()["error"]) < 400


@pytest.mark.whole
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "application/json"),
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'"text"', "application/json"),
        (b"NaN", "application/json"),
        (b'{"q": NaN, "source": "en", "target": "de"}', "application/json"),
        (b"[" * 200_000, "application/json"),
        (b'{"q":' * 40_000, "application/json"),
        (b'{"q": "\xff\xfe", "source": "en", "target": "de"}', "application/json"),
        (json.dumps(GOOD).encode("utf-16"), "application/json"),
        (b'{"q": ' + b"1" * 50_000 + b"}", "application/json"),
        (b"q=%ff%fe&source=en&target=de", "application/x-www-form-urlencoded"),
        (b"&".join([b"a=b"] * 5000), "application/x-www-form-urlencoded"),
        (b"no boundary", "multipart/form-data"),
        (b"--x\r\nbroken", "multipart/form-data; boundary=x"),
        (b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--", "multipart/form-data; boundary=x"),
        (b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n\xff\r\n--x--', "multipart/form-data; boundary=x"),
        (b"\x00\x01", "application/octet-stream"),
    ],
)
def test_bodies(server: Server, body: bytes, kind: str) -> None:
    response = server.client.post("/translate", content=body, headers={"content-type": kind})
    assert response.status_code == 400
    assert set(response.json()) == {"error"}
    assert server.translate(q="the dog").status_code == 200


@pytest.mark.whole
def test_lone_surrogates_and_controls_are_text(server: Server) -> None:
    body = rb'{"q": "the \ud800 dog \u0000 \u202e .", "source": "en", "target": "de"}'
    response = server.client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 200
    assert isinstance(response.json()["translatedText"], str)


def test_a_body_that_is_too_long_is_not_read(server: Server) -> None:
    response = server.client.post("/translate", content=b"x" * 10_000_000)
    assert response.status_code == 413
    with socket.create_connection((server.host, server.port)) as sock:
        sock.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(OSError):  # noqa: PT012
            for _ in range(200):
                sock.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            assert b" 413 " in sock.recv(1000)
            raise OSError
    assert server.translate(q="the dog").status_code == 200


@pytest.mark.parametrize(
    "path", ["/nothing", "/../../etc/passwd", "/%2e%2e/x", "/translate/x", "/download_file/..%2fx"]
)
def test_other_paths(server: Server, path: str) -> None:
    response = server.client.get(path)
    assert (response.status_code, set(response.json())) == (404, {"error"})


def test_other_methods(server: Server) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        assert server.client.request(method, "/translate").status_code == 405


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET /nothing HTTP/9.9\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n" + b"A: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_no_request(server: Server, raw: bytes) -> None:
    with socket.create_connection((server.host, server.port), timeout=20) as sock:
        sock.sendall(raw)
        assert sock.recv(1000).split()[1] in (b"400", b"404", b"413", b"431")
    assert server.client.get("/health").status_code == 200


def test_a_request_of_two_lengths_hides_no_other(server: Server) -> None:
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection((server.host, server.port), timeout=20) as sock:
        sock.sendall(head + b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        while more := sock.recv(1000):  # until the server closes the connection
            received += more
    assert (received.count(b"HTTP/1.1"), received.split()[1]) == (1, b"400")


def test_an_address_that_is_none(server: Server) -> None:
    body = b'{"q": 5}'
    for host in (b"[", b"x:a", b"[[::1]]"):
        head = b"POST /translate HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        with socket.create_connection((server.host, server.port), timeout=20) as sock:
            sock.sendall(head % (host, len(body)) + body)
            received = b"".join(iter(lambda sock=sock: sock.recv(1000), b""))
        assert received.split()[1] == b"400"
        assert b'{"error":"' in received


def test_clients_that_leave_in_the_middle(server: Server) -> None:
    body = json.dumps(GOOD).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    for cut in (0, 10, len(body)):
        for _ in range(20):
            with socket.create_connection((server.host, server.port)) as sock:
                sock.sendall(head % len(body) + body[:cut])
    assert server.translate(q="the dog").status_code == 200


@pytest.mark.whole
def test_many_requests_on_one_connection(server: Server) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection((server.host, server.port), timeout=60) as sock:
        sock.sendall(request * 2000)
        received = b""
        while received.count(b'{"status":"ok"}') < 2000 and (more := sock.recv(1 << 16)):
            received += more
    assert (received.count(b"HTTP/1.1 200"), received.count(b'{"status":"ok"}')) == (2000, 2000)
