"""Other programs as translators: what they answer is checked, and a key leaves in one header only."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mtkit.errors import DataError, MtkitError, ReadWriteError, UsageError
from mtkit.translate import teachers
from mtkit.translate.teachers import ChatTeacher, CommandTeacher

LINES = ["a dog", "", "zwei \u2028 Wörter", " \t", "the end"]


def hyps(teacher: CommandTeacher | ChatTeacher, lines: list[str] = LINES) -> list[str]:
    translations = list(teacher.translate(lines, first=3))
    assert [each.line for each in translations] == [*range(3, 3 + len(lines))]
    return [each.hyp for each in translations]


def test_a_command_gets_the_lines_and_gives_one_for_each() -> None:
    assert hyps(CommandTeacher(command="tr a-z A-Z")) == ["A DOG", "", "ZWEI WöRTER", "", "THE END"]
    many = [f"line {number}" for number in range(9000)]  # more than a window, and than a pipe holds
    assert hyps(CommandTeacher(command="cat"), many) == many
    assert hyps(CommandTeacher(command="exit 1"), ["", ""]) == ["", ""]


@pytest.mark.parametrize(
    ("command", "error", "problem"),
    [
        ("head -n 2", DataError, "2 lines in answer to 3"),
        ("cat; echo", DataError, "4 lines in answer to 3"),
        ("printf '\\377\\n\\n\\n'", DataError, "not UTF-8"),
        ("yes", DataError, "bytes in answer to"),
        ("cat > /dev/null; echo 'no \033[31mmodel' >&2; exit 3", ReadWriteError, r"exit code 3: no \\x1b\[31mmodel"),
        ("no-such-program", ReadWriteError, "exit code 127"),
        ("exec < /dev/null; exit 4", ReadWriteError, "exit code 4"),
    ],
)
def test_commands_that_do_not_translate(command: str, error: type[MtkitError], problem: str) -> None:
    with pytest.raises(error, match=problem):
        hyps(CommandTeacher(command=command))


@pytest.mark.parametrize("command", ["sleep 60", "sleep 60 & cat > /dev/null", "exec > /dev/null; sleep 60"])
def test_a_command_that_never_answers_is_ended_with_what_it_started(command: str) -> None:
    begin = time.monotonic()
    with pytest.raises(ReadWriteError, match=r"no answer to 3 lines within 0\.2 seconds"):
        hyps(CommandTeacher(command=command, timeout=0.2))
    assert time.monotonic() - begin < 30


class Server(ThreadingHTTPServer):
    """Answers with the text in capitals, after the statuses in `statuses`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses: list[int] = []
        self.answer: bytes | None = None
        self.promised = 0  # bytes that the answer announces and does not send
        self.requests: list[tuple[str, dict[str, Any], str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body, self.headers.get("Authorization", "")))
        status = self.server.statuses.pop() if self.server.statuses else 200
        text = body["messages"][-1]["content"].upper()
        content = json.dumps({"choices": [{"message": {"content": f" {text}\n"}}]}).encode()
        content = self.server.answer or (content if status == 200 else b'{"error": "no \x1b[31m"}')
        self.send_response(status)
        if self.server.promised:
            content = b""
        self.send_header("Content-Length", str(len(content) + self.server.promised))
        if status in (301, 302, 307):
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()
        time.sleep(1 if self.server.promised else 0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(teachers, "WAITS", (0.01, 0.01))
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()


def chat(server: Server, **fields: Any) -> ChatTeacher:
    return ChatTeacher(url=server.url, model="m", languages=("German", "English"), **fields)


def test_a_server_gets_a_request_for_each_line_that_has_text(server: Server) -> None:
    assert hyps(chat(server, key="k-1")) == ["A DOG", "", "ZWEI WÖRTER", "", "THE END"]
    assert sorted(body["messages"][-1]["content"] for _, body, _ in server.requests) == [
        "a dog",
        "the end",
        "zwei Wörter",
    ]
    path, body, key = server.requests[0]
    assert (path, body["model"], key) == ("/v1/chat/completions", "m", "Bearer k-1")
    assert "from German to English" in body["messages"][0]["content"]
    many = [f"line {number}" for number in range(200)]
    assert hyps(chat(server), many) == [line.upper() for line in many]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_requests_are_repeated(server: Server, status: int) -> None:
    server.statuses = [status, status]
    assert hyps(chat(server), ["a dog"]) == ["A DOG"]
    server.statuses = [status] * 3
    with pytest.raises(ReadWriteError, match=rf"status {status}, also after 2 more requests"):
        hyps(chat(server), ["a dog"])


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404])
def test_refusals_are_not_repeated_and_redirections_not_followed(server: Server, status: int) -> None:
    server.statuses = [status] * 9
    with pytest.raises(UsageError, match=rf"status {status}") as error:
        hyps(chat(server, key="secret"), ["a dog"])
    assert [path for path, _, _ in server.requests] == ["/v1/chat/completions"]
    assert "secret" not in str(error.value)
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>Welcome</html>",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": null}}]}',
        b"[" * 10**5,
        b"x" * (3 << 20),
    ],
)
def test_answers_of_other_servers(server: Server, answer: bytes) -> None:
    server.answer = answer
    with pytest.raises(DataError, match=r"127\.0\.0\.1"):
        hyps(chat(server), ["a dog"])


def test_half_a_character_of_a_server_is_replaced(server: Server) -> None:
    server.answer = b'{"choices": [{"message": {"content": "a \\ud800 b"}}]}'
    assert hyps(chat(server), ["a dog"]) == ["a ? b"]


def test_a_server_that_refuses_without_saying_why(server: Server) -> None:
    server.statuses, server.promised = [400], 10
    with pytest.raises(UsageError, match="status 400: Bad Request"):
        hyps(chat(server, timeout=0.2), ["a dog"])


def test_a_server_of_this_machine_is_asked_without_a_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, server.url)
    other = ChatTeacher(url="http://127.0.0.1:9/v1", model="m", languages=("German", "English"), key="secret")
    with pytest.raises(ReadWriteError):
        hyps(other, ["a dog"])
    assert not server.requests


def test_no_server(server: Server) -> None:
    teacher = chat(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(ReadWriteError, match="also after 2 more requests"):
        hyps(teacher, ["a dog"] * 20)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://host/v1", "an address such as"),
        ("host/v1", "an address such as"),
        ("https://user:word@host/v1", "has a password"),
        ("http://host/v1", "without encryption"),
        ("http://[::1", "an address such as"),
        ("https://host:port/v1", "an address such as"),
        ("https://host/a b", "an address such as"),
    ],
)
def test_addresses_that_are_refused(url: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as error:
        ChatTeacher(url=url, model="m", languages=("German", "English"), key="secret")
    assert "secret" not in f"{error.value}"
    assert "word@" not in f"{error.value}"
    with pytest.raises(UsageError, match="OPENAI_API_KEY: has spaces") as error:
        ChatTeacher(url="https://host/v1", model="m", languages=("a", "b"), key="secret\nsecret")
    assert "secret" not in f"{error.value}"
    local = ChatTeacher(url="http://localhost:1/v1", model="m", languages=("a", "b"), key="secret")
    assert "secret" not in f"{local!r} {local.settings()}"
