"""Showing a training that another process does, or did, from its log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mtkit.errors import MissingInputError
from mtkit.io.files import reading
from mtkit.io.lock import is_held
from mtkit.training.monitoring.log import Display, parse_line

SECONDS = 0.5  # between two looks at the log


def watch(run: Path, display: Display, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show what was logged so far, then what is being logged, until no process works in the run folder.

    Of the reports of updates that are past only the last is shown.

    Raises:
        MissingInputError: there is no log.
    """
    path = run / "log.jsonl"
    if not path.is_file():
        raise MissingInputError(f"{path}: no such file; {run} is no run folder, or nothing was done there yet")
    log = _Growing(path)
    past = list(log.new())
    reports = [number for number, record in enumerate(past) if record["event"] == "train"]
    for number, record in enumerate(past):
        if record["event"] != "train" or number == reports[-1]:
            _show(record, display)
    while is_held(run):
        sleep(SECONDS)
        for record in log.new():
            _show(record, display)
    for record in log.new():  # what was written between the last look and the end
        _show(record, display)


def _show(record: dict[str, Any], display: Display) -> None:
    fields = {key: value for key, value in record.items() if key not in ("time", "event", "update")}
    display.event(record["event"], record["update"], fields)


class _Growing:
    """A log that is being written, and now and then replaced by a shorter one (see `Log.rewind`)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode = 0
        self._place = 0
        self._latest = 0.0

    def new(self) -> Iterator[dict[str, Any]]:
        """The events since the last call; a line that is not whole yet is left for the next."""
        with reading(self.path), self.path.open("rb") as file:
            inode = self.path.stat().st_ino
            is_another = inode != self._inode
            self._inode, self._place = inode, 0 if is_another else self._place
            file.seek(self._place)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._place += len(whole)
        since = self._latest if is_another else -1.0
        for line in whole.split(b"\n"):
            record = parse_line(line)
            if record is not None and record["time"] > since:
                self._latest = record["time"]
                yield record
