"""Signals: raised while a command runs, also where Python or a library drops or converts the exception."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from mtkit.signals import HANDLED, RaisedSignals, SignalReceived, blocked_in_workers, call_interruptibly

START = """
import os, signal, sys, time
from mtkit import signals
kill = lambda number: os.kill(os.getpid(), number)
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True, check=False)


def kill(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", HANDLED)
def test_a_signal_is_raised_and_handlers_come_back(number: int) -> None:
    before = [signal.getsignal(each) for each in (*HANDLED, signal.SIGALRM)]
    with pytest.raises(SignalReceived, match=signal.Signals(number).name) as caught, RaisedSignals() as raised:
        kill(number)
    assert caught.value.number == raised.received == number
    assert [signal.getsignal(each) for each in (*HANDLED, signal.SIGALRM)] == before
    assert sys.unraisablehook is not raised._raise_again


def test_later_signals_do_not_disturb_the_clean_up() -> None:
    cleaned = []

    def work() -> None:
        try:
            kill(signal.SIGINT)
        finally:
            kill(signal.SIGTERM)
            cleaned.append(True)

    with pytest.raises(SignalReceived, match="SIGINT"), RaisedSignals():
        work()
    assert cleaned == [True]


def test_a_second_ctrl_c_ends_the_process_at_once() -> None:
    done = python("""
with signals.RaisedSignals():
    try:
        kill(signal.SIGTERM)
    finally:
        kill(signal.SIGINT)
        print("not here")
""")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "mtkit: error: interrupted by SIGINT\n")


def test_before_a_command_a_signal_ends_the_process_at_once() -> None:
    done = python("signals.install(signals.exit_at_once); kill(signal.SIGHUP); print('not here')")
    assert (done.returncode, done.stdout, done.stderr) == (129, "", "mtkit: error: interrupted by SIGHUP\n")


def test_after_a_command_a_signal_does_not_change_the_exit_code() -> None:
    done = python("signals.finish_at_once(3); kill(signal.SIGTERM); print('not here')")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def test_an_ignored_signal_stays_ignored() -> None:
    code = "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nwith signals.RaisedSignals(): kill(signal.SIGHUP)\nprint(1)"
    assert python(code).stdout == "1\n"


def test_a_signal_that_a_destructor_drops_is_raised_again() -> None:
    class Loud:
        def __del__(self) -> None:
            kill(signal.SIGUSR1)

    def work() -> None:
        loud = Loud()
        del loud
        time.sleep(30)

    with pytest.raises(SignalReceived, match="SIGUSR1"), RaisedSignals():
        work()


SLOW_TORCH = """
import os, signal, time
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.2)
SECOND_SIGNAL
finished = True
"""
IMPORT_TORCH = """
with signals.RaisedSignals() as raised:
    try:
        import torch
        time.sleep(30)
    except signals.SignalReceived as error:
        print(error, torch.finished, raised.received == signal.SIGTERM)
"""


def import_slow_torch(folder: Path, *, second: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "torch.py").write_text(SLOW_TORCH.replace("SECOND_SIGNAL", second))
    return python(f"sys.path.insert(0, {str(folder)!r})\n{IMPORT_TORCH}")


def test_a_signal_waits_for_the_end_of_the_import_of_torch(tmp_path: Path) -> None:
    done = import_slow_torch(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted by SIGTERM True True\n", "")


def test_a_second_ctrl_c_ends_the_import_of_torch(tmp_path: Path) -> None:
    done = import_slow_torch(tmp_path, second="os.kill(os.getpid(), signal.SIGINT)")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "mtkit: error: interrupted by SIGINT\n")


def test_a_signal_that_a_library_converts_to_its_own_error_prevails() -> None:
    def work() -> None:
        try:
            kill(signal.SIGTERM)
        except SignalReceived as error:
            raise ImportError("a module could not be loaded") from error

    with pytest.raises(SignalReceived, match="SIGTERM"), RaisedSignals() as raised, raised.prevail():
        work()


def test_a_long_call_is_abandoned() -> None:
    done = python("""
import threading
threading.Timer(0.2, kill, [signal.SIGTERM]).start()
with signals.RaisedSignals():
    signals.call_interruptibly(lambda: time.sleep(1000))
""")
    assert done.returncode == 1
    assert "SignalReceived: interrupted by SIGTERM" in done.stderr


def test_a_long_call_returns_and_raises() -> None:
    assert call_interruptibly(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        call_interruptibly(lambda: 1 / 0)


def test_no_worker_starts_after_a_signal_that_a_library_has_dropped() -> None:
    with RaisedSignals():
        with suppress(SignalReceived):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(SignalReceived, match="SIGTERM"):
            blocked_in_workers().__enter__()
    with blocked_in_workers():
        pass
