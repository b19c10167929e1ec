"""Client of the fork server: run command lines and look at how they end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.robustness.harness.fork_server import Job

ROOT = Path(__file__).parents[3]
HANG = 10.0  # seconds; no command on the tiny data of this suite takes longer
# exit codes that the README documents, and 128 + SIGHUP, SIGUSR1
DOCUMENTED = frozenset({0, 2, 65, 66, 69, 70, 74, 75, 78, 129, 130, 138, 141, 143})
MAX_MESSAGE_LINES = 12


@dataclass(frozen=True)
class Outcome:
    """The end of a process.

    Attributes:
        status: exit code, or minus the signal that ended it.
        hung: it was killed because it took longer than the limit.
    """

    status: int
    hung: bool
    seconds: float
    out: bytes
    err: str

    @property
    def message(self) -> str:
        """The error message."""
        return self.err[self.err.find("mtkit: error: ") :] if "mtkit: error: " in self.err else ""

    def fault(self, allowed: frozenset[int] = DOCUMENTED) -> str | None:
        """The first promise that this end breaks, or None."""
        if self.hung:
            return f"hung: no end after {self.seconds:.0f} s"
        if "Traceback (most recent call last)" in self.err or "Exception ignored" in self.err:
            return f"traceback: {_last_line(self.err)}"
        if "internal error" in self.err:
            return self.message.split("\n")[0]
        if self.status not in allowed:
            return f"exit code {self.status}: {_last_line(self.err) or 'silent'}"
        if self.status == 0:
            return None
        if self.err.count("mtkit: error: ") != 1:
            return f"exit code {self.status} with {self.err.count('mtkit: error: ')} messages: {_last_line(self.err)}"
        if self.message.rstrip("\n").count("\n") >= MAX_MESSAGE_LINES:
            return f"a message of more than {MAX_MESSAGE_LINES} lines: {self.message[:80]}"
        return None

    def label(self) -> str:
        """A short name of the end."""
        return "hung" if self.hung else "finished" if self.status == 0 else f"exit {self.status}"


def _last_line(text: str) -> str:
    return re.sub(r"\s+", " ", text.rstrip("\n").rpartition("\n")[2])[:300]


class ServerEnded(Exception):
    """The fork server has ended: no trial can be performed."""


class ForkServer:
    """A running fork server: `with ForkServer() as server: server.run([...], folder)`."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.robustness.harness.fork_server"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT, bufsize=0,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write((json.dumps(request) + "\n").encode())
        except BrokenPipeError as error:
            raise ServerEnded(f"the fork server has ended with code {self._process.wait()}") from error
        line = b""
        while not line.endswith(b"\n"):
            byte = self._process.stdout.read(1 << 16)
            if not byte:
                raise ServerEnded(f"the fork server has ended with code {self._process.wait()}")
            line += byte
        return dict(json.loads(line))

    def start(self, job: Job) -> int:
        """Start a process; return its id."""
        return int(self._ask({"do": "start", **asdict(job)})["pid"])

    def wait(self, pid: int, job: Job, limit: float = HANG) -> Outcome:
        """Wait for a process, and kill it and its children after `limit` seconds."""
        end = self._ask({"do": "wait", "pid": pid, "limit": limit})
        files = (Path(job.folder, f"{job.output}.{stream}") for stream in ("out", "err"))
        out, err = (file.read_bytes() if file.is_file() else b"" for file in files)  # killed before it opened them
        return Outcome(end["status"], end["hung"], end["seconds"], out, err.decode(errors="backslashreplace"))

    def run(self, words: Sequence[str], folder: Path, *, limit: float = HANG, **fields: Any) -> Outcome:
        """Run a command line to its end."""
        job = Job([str(word) for word in words], str(folder), **fields)
        return self.wait(self.start(job), job, limit)

    def run_with_signal(self, words: Sequence[str], folder: Path, number: int, after: float) -> Outcome:
        """Run a command line and send it a signal after some seconds, if it still runs."""
        job = Job([str(word) for word in words], str(folder))
        pid = self.start(job)
        time.sleep(after)
        os.kill(pid, number)  # the server has not collected the process, so that the id is not another's
        return self.wait(pid, job)

    def kill(self, pid: int) -> None:
        """Kill a process that was started."""
        os.kill(pid, signal.SIGKILL)
