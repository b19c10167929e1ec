import os
import signal
import subprocess
import sys
import threading

import pytest

from mtkit.errors import Interrupted
from mtkit.training.robustness.signals import HANDLED, Signals


@pytest.mark.parametrize("number", HANDLED)
def test_a_signal_is_remembered_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with Signals() as signals:
        os.kill(os.getpid(), number)
        assert signals.received == number
    assert signal.getsignal(number) == before


def test_inside_an_interruptible_block_it_raises_at_once():
    reached = []

    def work(signals):
        with signals.interruptible():
            reached.append("begun")
            os.kill(os.getpid(), signal.SIGTERM)
            reached.append("ended")

    with Signals() as signals:
        with pytest.raises(Interrupted):
            work(signals)
        assert reached == ["begun"]
        with pytest.raises(Interrupted):
            work(signals)
    assert reached == ["begun"]


def test_a_second_ctrl_c_ends_the_process_at_once():
    program = """
import os, signal
from mtkit.training.robustness.signals import Signals
with Signals():
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
        with Signals():
            inside.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [before]
