"""Exclusive lock of a run folder."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mtkit.errors import BusyError, ReadWriteError
from mtkit.io.lock import OutputLock, RunLock


def test_a_second_lock_names_the_holder_and_succeeds_after_release(tmp_path):
    folder = tmp_path / "run"
    message = f"{folder}: locked by process {os.getpid()} on host {socket.gethostname()}"
    with RunLock(folder), pytest.raises(BusyError, match=message):
        RunLock(folder).__enter__()
    with RunLock(folder):
        pass


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no /proc")
def test_a_folder_that_cannot_be_created_is_named():
    with pytest.raises(ReadWriteError, match=r"/proc/x: cannot be written: the folder /proc does not accept new files"):
        RunLock(Path("/proc/x")).__enter__()


HOLD = """
import os, sys, time
from pathlib import Path
from mtkit.io.lock import OutputLock, RunLock
with RunLock(Path(sys.argv[1])):
    if os.fork():
        print(os.getpid(), flush=True)
    time.sleep(float(sys.argv[2]))
"""


def test_a_killed_process_releases_the_lock_although_its_fork_lives(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path), "5"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        with pytest.raises(BusyError, match=f"process {pid} on host"):
            RunLock(tmp_path).__enter__()
        os.kill(pid, signal.SIGKILL)
        holder.wait()
        deadline = time.monotonic() + 2
        while True:
            try:
                with RunLock(tmp_path):
                    break
            except BusyError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        assert holder.stdout is not None
        holder.stdout.close()


def test_an_output_is_locked_under_all_its_names_and_the_lock_file_goes(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with OutputLock(tmp_path / "out"):
        message = f"{tmp_path / 'out'}: locked by process {os.getpid()} on host {socket.gethostname()}"
        with pytest.raises(BusyError, match=message):
            OutputLock(tmp_path / "link").__enter__()
        assert (tmp_path / ".out.lock").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["link"]
    with OutputLock(tmp_path / "link"):
        pass


def test_a_lock_file_that_its_holder_removes_meanwhile_is_no_lock(tmp_path, monkeypatch):
    first, second, third = (OutputLock(tmp_path / "out") for _ in range(3))
    first.__enter__()
    flock = fcntl.flock

    def release_before(handle, operation):
        if first._handle is not None:
            first.__exit__(None, None, None)  # between opening and locking by the second
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", release_before)
    with second, pytest.raises(BusyError):
        third.__enter__()


def test_the_folder_of_an_output_is_named_if_it_is_missing(tmp_path):
    with pytest.raises(ReadWriteError, match=r"no/out: cannot be written: the folder .*no does not exist"):
        OutputLock(tmp_path / "no" / "out").__enter__()
    with OutputLock(tmp_path / "no" / "out", make_parents=True):
        pass
