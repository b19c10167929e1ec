"""Tests run in one process per core, so each process and its children compute with one thread.

`pytest -n 0` runs them in a single process with all threads.
"""

from __future__ import annotations

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
