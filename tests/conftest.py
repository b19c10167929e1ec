"""Tests run in one process per core, so each process and its children compute with one thread.

`pytest -n 0` runs them in a single process with all threads. `pytest -m quick` collects the folders of QUICK alone,
which take a minute. Signals that were ignored when pytest started, as after `nohup` or in the background of a shell,
have their default action in tests.

Generated inputs are the same in every run, so that a run tells of the code and not of a draw;
`pytest --hypothesis-profile=drawn` draws others.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

for number, action in {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}.items():
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, action)

settings.register_profile("fixed", derandomize=True, deadline=None)  # no deadline: the machine may be busy
settings.register_profile("drawn", deadline=None)
settings.load_profile("fixed")

TESTS = Path(__file__).parent
QUICK = [
    TESTS / "unit" / folder
    for folder in ("house", "layers/positions", "layers/recurrent", "recipe", "search", "training/optimisers")
]


@cache
def is_quick(path: Path) -> bool:
    """Whether a file of tests is in a folder of QUICK, or a folder is one of them, below or above one."""
    return any(path.is_relative_to(folder) or folder.is_relative_to(path) for folder in QUICK)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over what is not quick, if only quick tests are asked for: its import would take longer than they do."""
    is_left_out = config.option.markexpr == "quick" and not is_quick(collection_path)
    return True if is_left_out else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the quick tests."""
    if is_quick(item.path) and not any(item.iter_markers("slow")):
        item.add_marker("quick")


@pytest.fixture(autouse=True)
def threads_of_this_test() -> Iterator[None]:
    """A command with `--threads` sets those of the process, and sums of other tests would come in another order."""
    from mtkit.hardware import restored_threads  # imported here: the environment above is set before

    with restored_threads():
        yield
