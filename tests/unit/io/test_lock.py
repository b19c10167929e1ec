"""Exclusive lock of a run folder."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mtkit.errors import BusyError, ReadWriteError
from mtkit.io.lock import RunLock


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
from mtkit.io.lock import RunLock
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
