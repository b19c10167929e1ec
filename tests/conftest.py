"""Tests run in one process per core, so each process and its children compute with one thread.

`pytest -n 0` runs them in a single process with all threads. Signals that were ignored when pytest started, as after
`nohup` or in the background of a shell, have their default action in tests.
"""

from __future__ import annotations

import os
import signal

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

for number, action in {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}.items():
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, action)
