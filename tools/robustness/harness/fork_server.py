"""Fork server: a program that has imported everything and forks a process for each command line.

One JSON object per line on stdin, one per line on stdout:

    {"do": "start", ...fields of Job}      -> {"pid": 123}
    {"do": "wait", "pid": 123, "limit": 10} -> {"status": 0, "hung": false, "seconds": 0.3}

A job is a command line of mtkit, or a function `module:name` that is called with its words. It runs in its own process
group, which is killed as a whole when the job has ended or the limit is over. The server computes nothing itself and
has one thread, so that a fork is safe.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tools.robustness.harness import file_operations

POLL = 0.002  # seconds
RESET = (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1)
# imported by functions that most commands reach, or by jobs
IMPORTED_LATE = ("sacrebleu", "torch._dynamo", "tools.robustness.harness.readers")


@dataclass(frozen=True)
class Job:
    """One process.

    Attributes:
        words: the command line without the program's name, or the arguments of `function`.
        folder: current directory; stdout and stderr go to the files OUTPUT.out and OUTPUT.err in it.
        stdin: file; empty: /dev/null.
        attack: fields of file_operations.Attack; None: file operations are not tracked.
        hidden: packages that the job does not find; drawing takes longer than all else together.
        function: `module:name`, called instead of the command line; its integer result is the exit status.
    """

    words: list[str]
    folder: str
    output: str = "process"
    stdin: str = ""
    attack: Mapping[str, Any] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ("matplotlib",)
    function: str = ""


def import_everything() -> None:
    """Import all modules of mtkit and fill its caches, so that no job has to."""
    import mtkit

    for module in pkgutil.walk_packages(mtkit.__path__, "mtkit."):
        if module.name != "mtkit.__main__":
            importlib.import_module(module.name)
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    from mtkit.cli import entry
    from mtkit.cli.app import build_command
    from mtkit.recipe.recipe import load_recipe

    entry.build_app = functools.cache(entry.build_app)
    for name in entry.build_app().list_commands(None):
        build_command(name)
    load_recipe("quickstart", [])  # fills the caches of the recipe's types


def main() -> None:
    """Serve until stdin ends; in a forked process, run the job and return."""
    import_everything()
    gc.collect()
    gc.freeze()
    answers = os.dup(1)
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    buffered = b""
    while chunk := requests.read(1 << 16):
        *lines, buffered = (buffered + chunk).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request.pop("do") == "wait":
                answer = _wait(**request)
            else:
                pid = os.fork()
                if pid == 0:
                    os.close(answers)
                    return _run(Job(**request))
                _set_group(pid)
                answer = {"pid": pid}
            os.write(answers, (json.dumps(answer) + "\n").encode())
    return None


def _set_group(pid: int) -> None:
    """Put a new process into its own group; it does so itself, but may be killed before."""
    with contextlib.suppress(ProcessLookupError):
        os.setpgid(pid, pid)


def _wait(pid: int, limit: float) -> dict[str, Any]:
    start, hung = time.monotonic(), False
    while (ended := os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
        if time.monotonic() - start > limit:
            hung = True
            os.killpg(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        else:
            time.sleep(POLL)
    del ended
    os.killpg(pid, signal.SIGKILL)  # its workers; the process itself is a zombie until the next line
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {"status": status, "hung": hung, "seconds": time.monotonic() - start}


def _run(job: Job) -> None:
    _set_group(0)
    for number in RESET:  # a server in the background ignores some, and its children would, too
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(job.folder)
    os.environ.update(job.environment)
    sys.modules.update(dict.fromkeys(job.hidden))  # type: ignore[arg-type]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, file, mode in (
        (0, job.stdin or os.devnull, os.O_RDONLY),
        (1, f"{job.output}.out", flags),
        (2, f"{job.output}.err", flags),
    ):
        descriptor = os.open(file, mode, 0o666)
        os.dup2(descriptor, number)
        os.close(descriptor)
    if job.attack is not None:
        file_operations.install(file_operations.Attack(**job.attack))
    try:
        _main_function(job)
    except SystemExit as end:
        _exit(end.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _exit(1)


def _main_function(job: Job) -> None:
    if job.function:
        module, _, name = job.function.partition(":")
        sys.exit(getattr(importlib.import_module(module), name)(*job.words))
    from mtkit.cli import entry

    sys.argv = ["mtkit", *job.words]
    entry.main()


def _exit(code: object) -> NoReturn:
    """End as the interpreter does, but without taking down its modules, which takes longer than most commands."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else code is not None)


if __name__ == "__main__":
    main()
