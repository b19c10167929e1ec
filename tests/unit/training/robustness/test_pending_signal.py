import os
import signal
import subprocess
import sys
import threading

import pytest

from mtkit.errors import Interrupted
from mtkit.signals import HANDLED, RaisedSignals, SignalReceived
from mtkit.training.pending_signal import PendingSignal


@pytest.mark.parametrize("number", HANDLED)
def test_a_signal_is_remembered_and_handlers_come_back(number):
    passed_on = []
    before = signal.signal(number, lambda number, frame: passed_on.append(number))
    try:
        handler = signal.getsignal(number)
        with PendingSignal() as signals:
            os.kill(os.getpid(), number)
            assert signals.received == number
            assert passed_on == []
        assert signal.getsignal(number) == handler
        assert passed_on == [number]  # the block ended without an answer to it
    finally:
        signal.signal(number, before)


def test_a_signal_that_the_block_answers_is_not_passed_on():
    def work():
        with PendingSignal() as signals:
            os.kill(os.getpid(), signal.SIGTERM)
            raise Interrupted(signals.received)

    with pytest.raises(Interrupted):
        work()


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with PendingSignal() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.received is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_inside_an_interruptible_block_it_raises_at_once():
    reached = []

    def work(signals):
        with signals.interruptible():
            reached.append("begun")
            os.kill(os.getpid(), signal.SIGTERM)
            reached.append("ended")

    def work_twice():
        with RaisedSignals(), PendingSignal() as signals:
            with pytest.raises(Interrupted):
                work(signals)
            assert reached == ["begun"]
            with pytest.raises(Interrupted):
                work(signals)

    with pytest.raises(SignalReceived):
        work_twice()
    assert reached == ["begun"]


def test_a_second_ctrl_c_ends_the_process_at_once():
    program = """
import os, signal
from mtkit.training.pending_signal import PendingSignal
with PendingSignal():
    os.kill(os.getpid(), signal.SIGINT)
    print("still here", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    print("not here")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "still here\n")


def test_a_thread_installs_no_handlers():
    before, inside = signal.getsignal(signal.SIGTERM), []

    def work():
        with PendingSignal():
            inside.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [before]
