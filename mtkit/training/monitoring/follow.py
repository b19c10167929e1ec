"""Display of a running or finished training from its log, for `mtkit watch`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mtkit.errors import MissingInputError
from mtkit.io.files import translate_read_errors
from mtkit.io.lock import is_locked
from mtkit.training.monitoring.log import Display, parse_line

POLL_SECONDS = 0.5  # between two reads of the log


def watch(run: Path, display: Display, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Display the events logged so far, then new ones until no process holds the run's lock.

    Of the past `train` events only the last is displayed.

    Raises:
        MissingInputError: there is no log.
    """
    path = run / "log.jsonl"
    if not path.is_file():
        raise MissingInputError(f"{path}: no such file; {run} is not a run folder, or nothing has been run there yet")
    log = _LogTail(path)
    past = list(log.new())
    train_events = [number for number, record in enumerate(past) if record["event"] == "train"]
    for number, record in enumerate(past):
        if record["event"] != "train" or number == train_events[-1]:
            _show(record, display)
    while is_locked(run):
        sleep(POLL_SECONDS)
        for record in log.new():
            _show(record, display)
    for record in log.new():  # written between the last read and the release of the lock
        _show(record, display)


def _show(record: dict[str, Any], display: Display) -> None:
    fields = {key: value for key, value in record.items() if key not in ("time", "event", "update")}
    display.event(record["event"], record["update"], fields)


class _LogTail:
    """Incremental reader of a log that grows, and that `Log.rewind` may replace by a shorter file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode = 0
        self._offset = 0
        self._latest = 0.0

    def new(self) -> Iterator[dict[str, Any]]:
        """Yield the events since the last call; an incomplete last line is left for the next call."""
        with translate_read_errors(self.path), self.path.open("rb") as file:
            inode = self.path.stat().st_ino
            is_replaced = inode != self._inode
            self._inode, self._offset = inode, 0 if is_replaced else self._offset
            file.seek(self._offset)
            content = file.read()
        complete = content[: content.rfind(b"\n") + 1]
        self._offset += len(complete)
        since = self._latest if is_replaced else -1.0  # a rewound log repeats events that were displayed already
        for line in complete.split(b"\n"):
            record = parse_line(line)
            if record is not None and record["time"] > since:
                self._latest = record["time"]
                yield record
