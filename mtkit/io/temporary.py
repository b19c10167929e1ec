"""Names of temporary files and folders, and removal of those that killed processes left behind.

`.NAME.HOST.PID.tmp` beside NAME is written by process PID on HOST. It is abandoned if that process no longer exists,
which only the same host can tell.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

_TEMPORARY = re.compile(r"\..+\.\d+\.tmp", re.DOTALL)
_NAME = re.compile(r"\.(?P<name>.+)\.(?P<host>[^.]+)\.(?P<pid>\d+)\.tmp", re.DOTALL)


@cache
def host_name() -> str:
    """Name of this host in names of files, with the namespace of its process numbers (each container has its own)."""
    name = re.sub(r"[^\w-]", "-", socket.gethostname())[:32] or "host"
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return name
    return f"{name}-{namespace:x}"


def temporary_beside(path: Path) -> Path:
    """Return a path in the same folder, thus on the same file system, that no other process uses."""
    return path.with_name(f".{path.name}.{host_name()}.{os.getpid()}.tmp")


def remove_abandoned(path: Path) -> None:
    """Remove the temporary files and folders for `path` that dead processes of this host left behind, if possible."""
    with suppress(OSError):
        for temporary in _temporaries(path.parent):
            match = _NAME.fullmatch(temporary.name)
            is_ours = match and match["name"] == path.name and match["host"] == host_name()
            if match and is_ours and not _is_alive(int(match["pid"])):
                _remove(temporary)


def remove_all_abandoned(folder: Path) -> None:
    """Remove all temporary files and folders in a folder, except those of other live processes of this host.

    Requires the lock of the run folder that `folder` belongs to: processes of other hosts then do not write there.

    Raises:
        OSError: one of them cannot be removed.
    """
    for temporary in _temporaries(folder):
        match = _NAME.fullmatch(temporary.name)
        pid = int(match["pid"]) if match and match["host"] == host_name() else os.getpid()
        if pid == os.getpid() or not _is_alive(pid):
            _remove(temporary)


def _temporaries(folder: Path) -> list[Path]:
    """Files and folders with the name of a temporary one, with or without a host."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return [folder / entry.name for entry in entries if _TEMPORARY.fullmatch(entry.name)]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # the process of another user, or a number that no process has
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)  # another process may be removing it too
    else:
        path.unlink(missing_ok=True)
