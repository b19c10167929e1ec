"""Events of a run: each is a line of `log.jsonl` and a call of a display.

A line is `{"time": seconds since 1970, "event": name, "update": number or null, ...fields}`. The events of training:

| event | fields |
|---|---|
| begin | max_updates, precision, parameters, device, numerics (see numerics.py) |
| resume | checkpoint, result: a sentence |
| numerics_changed | result: a sentence; the resumed training does not end with the bits of an uninterrupted one |
| metric_changed | result: a sentence; earlier validations are not comparable and were forgotten |
| train | loss, learning_rate, grad_norm, padding_efficiency, memory_gb, teacher_forcing_ratio, modules, |
| | the objective's extra losses, tokens_per_second, seconds_per_update, seconds, processor_seconds, |
| | seconds_left, scheduled_update (with a time budget: of the max_updates of `begin`) |
| validation | nll, perplexity, bleu, command, nll_by_set, bleu_by_set, sample [src, hyp, ref], token_accuracy, ece, |
| | reliability, is_best, seconds |
| command | result: the shell command of validations, before it first runs |
| validation_command | result: a sentence about a failure |
| checkpoint | path |
| damaged | path, reason |
| nonfinite | loss, grad_norm, seed, samples, path |
| diverged | checkpoint, lr_factor |
| out_of_memory | max_padded_tokens: sentences × longest side to which micro-batches are split from then on |
| busy | result: a sentence about other processes on the cores, once |
| tracker | result: a sentence about a failure of a tracker |
| interrupted | signal |
| end | reason, finished, best_update, seconds, tokens_per_second, numerics |

`token_accuracy` is the fraction of reference tokens that are the most probable ones with teacher forcing, `ece` the
expected calibration error and `reliability` its table (see evaluation/calibration.py). `padding_efficiency` is the
fraction of tokens that are not padding, `memory_gb` the peak so far, and `teacher_forcing_ratio` that of scheduled
sampling. `modules`, logged with `training.log_gradient_norms`, has for each module of the model its `grad_norm` after
clipping and its `update_ratio`, the norm of the weights' change over the norm of the weights.

Each line ends with its checksum (see io/records.py). Readers skip a line that is damaged or incomplete, so that damage
in the log costs a point of a curve and nothing else.

A resumed training repeats the updates after its checkpoint. Their lines are removed first, so that the log has no
update twice.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from mtkit.display import in_current_folder, printable
from mtkit.io.files import read_file, translate_read_errors, translate_write_errors, write_bytes
from mtkit.io.json_text import finite
from mtkit.io.lock import is_locked
from mtkit.io.records import find_log, parse_record_line, record_line

# events that a resumed training repeats
REWOUND_EVENTS = frozenset({"train", "validation", "checkpoint", "diverged", "out_of_memory", "end"})


TINY = 1e-12  # far below any learning rate
NOTEBOOK_LINE = 72  # characters, more than the line of a training has


class Display(Protocol):
    """Display of events."""

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """Display one event; fields are numbers, strings, None, or lists and mappings of these."""
        ...


def short(value: float, form: str = ".4g") -> str:
    """A number in four digits; one that is only not zero by rounding, such as the BLEU of no match, as 0.0."""
    return f"{value:{form}}" if abs(value) > TINY or value == 0 else "0.0"


class PlainDisplay:
    """One line per event, for a pipe or a file."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """Print `update 500 validation nll=2.31 ...`, a sample on separate lines; `tokenizer: RESULT` of a stage."""
        prefix = "" if update is None else f"update {update} "
        values = []
        for key, value in fields.items():
            if isinstance(value, float):
                values.append(f"{key}={value:.0f}" if abs(value) >= 1e4 else f"{key}={short(value)}")
            elif value is not None and not isinstance(value, list | tuple | dict):
                values.append(f"{key}={value}")
        lines = [f"{name}: {fields['result']}" if "result" in fields else f"{prefix}{name} {' '.join(values)}".rstrip()]
        if sample := fields.get("sample"):
            lines += [f"    {side}: {text}" for side, text in zip(("src", "hyp", "ref"), sample, strict=True)]
        self.stream.write(printable(in_current_folder("\n".join(lines))) + "\n")
        self.stream.flush()


class NotebookDisplay(PlainDisplay):
    """The events in the output of a notebook's cell, with training in one line that is written again."""

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """Print one event; see PlainDisplay."""
        if name != "train":
            self.stream.write(f"\r{' ' * NOTEBOOK_LINE}\r")  # a shorter line leaves the end of one that it overwrites
            super().event(name, update, fields)
            return
        shown = {"loss": "loss {:.3f}", "tokens_per_second": "{:,.0f} tokens/s", "seconds_left": "{:,.0f} s left"}
        values = [form.format(fields[key]) for key, form in shown.items() if isinstance(fields.get(key), int | float)]
        self.stream.write("\r" + "  ".join([f"update {update:,}", *values]).ljust(NOTEBOOK_LINE))
        self.stream.flush()


def default_display() -> Display:
    """The display of a call from Python without one: progress in a notebook, nothing elsewhere."""
    return NotebookDisplay(sys.stdout) if "ipykernel" in sys.modules else NullDisplay()


class NullDisplay:
    """Display of nothing."""

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """Ignore the event."""


class Log:
    """Log file and displays of the same events.

    Args:
        path: log.jsonl; created if missing, otherwise appended to, without an incomplete last line.
        display: displays the events.

    Raises:
        ReadWriteError: the file cannot be written (also by every method).
    """

    def __init__(self, path: Path, display: Display) -> None:
        self.path = path
        self.display = display
        self._others: list[Display] = []
        self._open()

    def _open(self) -> None:
        with translate_write_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab")
            if self._file.tell():  # a killed process may have left an incomplete last line
                self._file.truncate(self.path.read_bytes().rfind(b"\n") + 1)

    def event(self, name: str, update: int | None = None, **fields: Any) -> None:
        """Write and display one event; a number that is not finite is written as null."""
        record = {"time": round(time.time(), 3), "event": name, "update": update, **fields}
        with translate_write_errors(self.path):
            self._file.write(record_line(finite(record)))
            self._file.flush()
        for display in (self.display, *self._others):
            display.event(name, update, fields)

    @contextmanager
    def with_display(self, display: Display) -> Iterator[None]:
        """Display the events of the block on one more display."""
        self._others.append(display)
        try:
            yield
        finally:
            self._others.remove(display)

    def rewind(self, update: int, *, is_validated: bool = True) -> None:
        """Remove the events that a training resumed after `update` will repeat, and incomplete or damaged lines.

        Args:
            update: the last update whose events stay.
            is_validated: whether its validation stays too.
        """
        self._file.close()
        remaining = []
        for line in self.path.read_bytes().split(b"\n"):
            if (record := parse_line(line)) is None:
                continue
            last = update if is_validated or record["event"] != "validation" else update - 1
            if record["event"] not in REWOUND_EVENTS or record["update"] is None or record["update"] <= last:
                remaining.append(line + b"\n")
        write_bytes(self.path, b"".join(remaining))
        self._open()

    def close(self) -> None:
        """Close the file."""
        with translate_write_errors(self.path):  # on a full disk, closing retries the failed write
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Parse one event; None for a line that is empty, incomplete, damaged or not an event."""
    record = parse_record_line(line)
    return record if record is not None and record.keys() >= {"time", "event", "update"} else None


def logged_events(path: Path) -> list[dict[str, Any]]:
    """Return all events of a log; empty if there is no log.

    Raises:
        ReadWriteError: the log cannot be read.
    """
    lines = read_file(path).split(b"\n") if path.is_file() else []
    return [record for line in lines if (record := parse_line(line)) is not None]


def last_event(path: Path, name: str, **fields: Any) -> dict[str, Any] | None:
    """Return the last event with this name and these fields in a log; None if there is none.

    Errors as `logged_events`.
    """
    wanted = {"event": name, **fields}.items()
    return next((record for record in reversed(logged_events(path)) if wanted <= record.items()), None)


POLL_SECONDS = 0.5  # between two reads of the log


def watch(run: Path, display: Display, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Display the events logged so far, then new ones until no process holds the run's lock.

    Of the past `train` events only the last is displayed.

    Raises:
        MissingInputError: there is no log.
    """
    log = _LogTail(find_log(run))
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
