"""Tests run in one process per core, so each process and its children compute with one thread.

`pytest -n 0` runs them in a single process with all threads. `pytest` alone passes over the tests that are marked
`whole` and takes a tenth of most generated inputs; `pytest --whole`, or a path, takes all. Signals that were ignored
when pytest started, as after `nohup` or in the background of a shell, have their default action in tests.

Generated inputs are the same in every run, so that a run tells of the code and not of a draw;
`pytest --hypothesis-profile=drawn` draws others.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.toy import sampling

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

for number, action in {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}.items():
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, action)

settings.register_profile("whole", derandomize=True, deadline=None)  # no deadline: the machine may be busy
settings.register_profile("sample", parent=settings.get_profile("whole"), max_examples=20)
settings.register_profile("drawn", deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option for all tests."""
    parser.addoption("--whole", action="store_true", help="run the tests that are marked whole too, as a path does")


def pytest_configure(config: pytest.Config) -> None:
    """Decide, once for all processes, whether this is a run of the whole, and how many inputs are generated."""
    if hasattr(config, "workerinput"):
        config.option.whole = config.workerinput["whole"]
    elif config.args_source is pytest.Config.ArgsSource.ARGS:
        config.option.whole = True
    sampling.is_whole = config.option.whole
    if config.option.hypothesis_profile is None:
        settings.load_profile("whole" if config.option.whole else "sample")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of xdist what was decided."""
    node.workerinput["whole"] = node.config.option.whole


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Pass over what only the whole has. Tests marked slow as well were asked for by `-m slow`."""
    if config.option.whole:
        return
    left_out = {item for item in items if item.get_closest_marker("whole") and not item.get_closest_marker("slow")}
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def threads_of_this_test() -> Iterator[None]:
    """A command with `--threads` sets those of the process, and sums of other tests would come in another order."""
    from mtkit.hardware import restored_threads  # imported here: the environment above is set before

    with restored_threads():
        yield
