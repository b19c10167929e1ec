"""Translators that are other programs: a command that reads and writes lines, or a server with OpenAI's interface.

Both have the interface of a Translator, so that `translate_to_file` writes their translations, in order and resumable.
What they answer is checked: as many lines as they got, in time, and not without end.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mtkit import __version__
from mtkit.display import printable
from mtkit.errors import DataError, ReadWriteError, UsageError
from mtkit.io.json_text import parse_json
from mtkit.translate.lines import Line, read_windows, text_of
from mtkit.translate.translation import Translation, TranslationOptions

MAX_GROWTH, MAX_EXTRA = 20, 1 << 20  # largest answer in bytes: those of the question times the first, plus the second
KEY_VARIABLE = "OPENAI_API_KEY"
NOT_SENDABLE = re.compile(r"[^!-~]")  # characters that http has in no address and in no key
REQUESTS_AT_ONCE = 8
RETRIED = frozenset({408, 429, 500, 502, 503, 504})  # statuses that say that the same request may succeed later
WAITS = (1.0, 4.0, 16.0, 60.0)  # seconds before a request is repeated, if the server states none
PROMPT = "Translate from {source} to {target}. Answer with the translation of the text alone, in one line."


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """A program that translates lines; blank lines stay blank and are not sent.

    Attributes:
        timeout: seconds for the answer to a window of lines or to a request.
    """

    compute_type: ClassVar[str] = ""
    can_fork: ClassVar[bool] = False
    flush_every: ClassVar[int | None] = None
    timeout: float = 600.0

    def load(self) -> Teacher:
        """The translator itself, which has nothing to load."""
        return self

    def translate(self, lines: Iterable[Line], *, first: int = 1) -> Iterator[Translation]:
        """See Translator.translate.

        Raises:
            DataError: the answer is no translation of the lines, such as another number of lines.
            ReadWriteError: there is no answer.
            UsageError: the program refuses the request for a reason that repeating it does not change.
        """
        for window, error in read_windows(lines, TranslationOptions(flush_every=self.flush_every)):
            texts = [" ".join(text_of(line).split()) for line in window]
            hyps = self.answers([text for text in texts if text])
            for number, text in enumerate(texts, start=first):
                yield Translation(line=number, hyp=" ".join(next(hyps).split()) if text else "")
            first += len(window)
            if error is not None:
                raise error

    def answers(self, texts: Sequence[str]) -> Iterator[str]:
        """A translation for each text."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Values that the translations depend on."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class CommandTeacher(Teacher):
    """A shell command that reads lines from stdin and writes a translation of each to stdout.

    It is started for each window of lines, so that it may read all of its input first, as many programs do.
    """

    command: str

    def settings(self) -> dict[str, Any]:
        """See Teacher."""
        return {"teacher_command": self.command}

    def answers(self, texts: Sequence[str]) -> Iterator[str]:
        """See Teacher."""
        if not texts:
            return iter(())
        question = "".join(f"{text}\n" for text in texts).encode()
        limit = MAX_GROWTH * len(question) + MAX_EXTRA
        with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as errors:
            asked.write(question)
            asked.seek(0)
            process = subprocess.Popen(
                self.command,
                shell=True,
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
            with process, _ended_after(process, self.timeout) as is_late:
                answer = (process.stdout or io.BytesIO()).read(limit + 1)
                if len(answer) <= limit:
                    process.wait()
            errors.seek(0)
            said = [line for line in errors.read(limit).decode(errors="replace").split("\n") if line.strip()]
        what = f"--teacher-command: {printable(self.command)}:"
        if is_late.is_set():
            raise ReadWriteError(
                f"{what} no answer to {len(texts):,} lines within {self.timeout:g} seconds; it was ended"
            )
        if len(answer) > limit:
            raise DataError(f"{what} more than {limit:,} bytes in answer to {len(question):,}; is it a translator?")
        if process.returncode:
            last = f": {printable(said[-1].strip())}" if said else ""
            raise ReadWriteError(f"{what} exit code {process.returncode}{last}")
        try:
            hyps = answer.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise DataError(f"{what} its output is not UTF-8") from error
        if len(hyps) != len(texts):
            raise DataError(
                f"{what} {len(hyps):,} lines in answer to {len(texts):,}; it must write one for each, in their order"
            )
        return iter(hyps)


@contextmanager
def _ended_after(process: subprocess.Popen[bytes], seconds: float) -> Iterator[threading.Event]:
    """End a process, and what it has started, after a time (which the event tells) or where the block ends before it.

    The process leads a session of its own.
    """
    is_late = threading.Event()

    def kill() -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def end() -> None:
        is_late.set()
        kill()

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()
        if process.poll() is None:
            kill()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which would take the key to another place."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class ChatTeacher(Teacher):
    """A server with OpenAI's interface for chats, which gets one request for each line.

    Attributes:
        url: its address, without /chat/completions.
        model: name of the model there.
        languages: of source and target, as the request names them.
        key: sent to the server, and in no message; empty: none.
    """

    flush_every: ClassVar[int | None] = 64  # lines that a killed command translates again, at most
    timeout: float = 60.0
    url: str
    model: str
    languages: tuple[str, str]
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urllib.parse.urlsplit(self.url)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # of the port, or of an address of IPv6
            is_address = False
        if not is_address or NOT_SENDABLE.search(self.url):
            raise UsageError(f"--teacher-url: {printable(self.url)}: an address such as https://HOST/v1 is expected")
        if parts.username or parts.password:
            raise UsageError(f"--teacher-url: has a password; set {KEY_VARIABLE} instead, which no message shows")
        if NOT_SENDABLE.search(self.key):
            raise UsageError(f"{KEY_VARIABLE}: has spaces or other characters that no key has; set it again")
        if self.key and parts.scheme == "http" and not self.is_local:
            raise UsageError(
                f"--teacher-url: {KEY_VARIABLE} would be sent to {parts.hostname} without encryption; give an https "
                f"address, or unset {KEY_VARIABLE}"
            )

    @property
    def is_local(self) -> bool:
        """Return whether the server is on this machine."""
        return urllib.parse.urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")

    @property
    def host(self) -> str:
        """The name of the server."""
        return str(urllib.parse.urlsplit(self.url).netloc)

    def settings(self) -> dict[str, Any]:
        """See Teacher."""
        return {"teacher_url": self.url, "teacher_model": self.model, "languages": list(self.languages)}

    def answers(self, texts: Sequence[str]) -> Iterator[str]:
        """See Teacher; the first error ends the work after the requests that are under way."""
        has_ended = threading.Event()
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            futures = [pool.submit(self._answer, text, has_ended) for text in texts]
            try:
                yield from (future.result() for future in futures)
            finally:
                has_ended.set()
                pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, text: str, has_ended: threading.Event) -> str:
        source, target = self.languages
        messages = [
            {"role": "system", "content": PROMPT.format(source=source, target=target)},
            {"role": "user", "content": text},
        ]
        body = json.dumps({"model": self.model, "messages": messages, "temperature": 0}).encode()
        limit = MAX_GROWTH * len(body) + MAX_EXTRA
        what = f"--teacher-url: {self.host}:"
        for attempt in range(len(WAITS) + 1):
            try:
                answer = self._post(body, limit)
                break
            except urllib.error.HTTPError as error:
                status, wait = error.code, error.headers.get("Retry-After", "")
                problem = f"status {status}"
                said = str(error.reason)
                with error, suppress(OSError, http.client.HTTPException):  # the status says enough
                    said = " ".join(error.read(2000).decode(errors="replace").split())
                if status not in RETRIED:
                    remedy = f"; {KEY_VARIABLE} is the key" if status in (401, 403) else ""
                    raise UsageError(f"{what} {problem}: {printable(said, 300)}{remedy}") from error
            except (http.client.HTTPException, OSError) as error:  # URLError among them
                problem, wait = printable(str(error) or type(error).__name__, 200), ""
            seconds = min(float(wait), WAITS[-1]) if wait.isdecimal() else WAITS[min(attempt, len(WAITS) - 1)]
            if attempt == len(WAITS) or has_ended.wait(seconds):
                raise ReadWriteError(f"{what} {problem}, also after {attempt} more requests; the same command resumes")
        if len(answer) > limit:
            raise DataError(f"{what} more than {limit:,} bytes in answer to a line")
        try:
            content = parse_json(answer)["choices"][0]["message"]["content"]
        except (ValueError, KeyError, TypeError, IndexError) as error:
            begin = printable(answer[:80].decode(errors="replace"), 80)
            raise DataError(
                f"{what} the answer is not that of /chat/completions ({begin}); does the address end as in "
                "https://HOST/v1?"
            ) from error
        if not isinstance(content, str):
            raise DataError(f"{what} an answer without text")
        return content.encode(errors="replace").decode()  # JSON may have half of a surrogate pair, and UTF-8 not

    def _post(self, body: bytes, limit: int) -> bytes:
        headers = {"Content-Type": "application/json", "User-Agent": f"mtkit/{__version__}"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(f"{self.url.rstrip('/')}/chat/completions", body, headers)
        # A proxy of the environment would get the key, too, where this machine is asked without encryption.
        proxies = [urllib.request.ProxyHandler({})] if self.is_local else []
        opener = urllib.request.build_opener(_NoRedirects, *proxies)
        end, answer = time.monotonic() + self.timeout, b""
        with opener.open(request, timeout=self.timeout) as response:
            while len(answer) <= limit and (part := response.read1(1 << 16)):
                answer += part
                if time.monotonic() > end:  # a server that drips never waits as long as the timeout
                    raise TimeoutError(f"no whole answer within {self.timeout:g} seconds")
        return answer
