"""Shell commands of the user that score texts: files of texts in environment variables, numbers as output."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

TIMEOUT = 3600  # seconds; a command that waits forever must stop
MAX_SHOWN = 200  # characters of a line in a message


def run_on_texts(command: str, texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines that a shell command prints, stripped and without blank ones.

    Args:
        texts: each is written to a file, whose path is in the environment variable of that name.

    Raises:
        ValueError: the command fails, or takes longer than TIMEOUT.
    """
    try:
        with TemporaryDirectory(prefix="mtkit-command-") as folder:
            paths = {name: Path(folder) / name.lower() for name in texts}
            for name, lines in texts.items():
                paths[name].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
            exit_code, output, errors = _run_shell(command, {name: str(path) for name, path in paths.items()})
    except OSError as error:
        raise ValueError(f"{command!r}: {error}") from error
    if exit_code:
        reason = f": {errors[-1][:MAX_SHOWN]}" if errors else ""
        raise ValueError(f"{command!r} ended with exit code {exit_code}{reason}")
    return output


def _run_shell(command: str, variables: Mapping[str, str]) -> tuple[int, list[str], list[str]]:
    """Run a shell command; return its exit code and the lines of its output and its errors.

    Raises:
        ValueError: it takes longer than TIMEOUT.
        OSError: it cannot be started.
    """
    with subprocess.Popen(
        command,
        shell=True,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)  # with what the shell has started
            raise ValueError(f"{command!r} took longer than {TIMEOUT:,} seconds") from error
    return process.returncode, _lines(output), _lines(errors)


def _lines(stream: bytes) -> list[str]:
    return [line.strip() for line in stream.decode(errors="replace").split("\n") if line.strip()]
