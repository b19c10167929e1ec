"""What training says: events, each one line of `log.jsonl` and one call of a display.

A line is `{"time": seconds since 1970, "event": name, "update": number or null, ...fields}`. The events of training:

| event | fields |
|---|---|
| begin | max_updates, precision, parameters, device |
| resume | checkpoint |
| measure | result: that validations can't be compared with those before |
| train | loss, rate, grad_norm, fill, memory_gb, truth_rate, parts, the objective's extras, and times: |
| | tokens_per_second, seconds_per_update, seconds, seconds_left |
| validation | nll, perplexity, bleu, sample [src, hyp, ref], is_best, seconds |
| checkpoint | path |
| damaged | path, reason |
| nonfinite | loss, grad_norm, samples, path |
| diverged | checkpoint, rate_share |
| out_of_memory | places: sentences × longest side to which micro-batches are cut from now on |
| interrupted | signal |
| end | reason, finished, best_update, seconds, tokens_per_second |

`memory_gb` is the most so far, `truth_rate` that of scheduled sampling. `parts`, there with `training.log_parts`, has
for each part of the model its `grad_norm`, after clipping, and its `update_ratio`, the norm of the step over that of
the weights.

A resumed training repeats the updates after its checkpoint, so their lines (train, validation, checkpoint, diverged)
are first taken out: the file always tells one story.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from mtkit.io.files import write_bytes, writing

# said again by a resumed training
REPEATED = frozenset({"train", "validation", "checkpoint", "diverged", "out_of_memory", "end"})


class Display(Protocol):
    """Shows events to a person."""

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """Show one event; fields are numbers, strings, None, or lists of these."""
        ...


class PlainDisplay:
    """One line an event, for a pipe or a file."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """`update 500 validation nll=2.31 ...`, its sample on lines of its own; `tokenizer: RESULT` for a stage."""
        place = "" if update is None else f"update {update} "
        said = " ".join(f"{key}={_short(value)}" for key, value in fields.items() if _is_plain(value))
        lines = [f"{name}: {fields['result']}" if "result" in fields else f"{place}{name} {said}".rstrip()]
        if sample := fields.get("sample"):
            lines += [f"    {side}: {text}" for side, text in zip(("src", "hyp", "ref"), sample, strict=True)]
        self.stream.write("\n".join(lines) + "\n")
        self.stream.flush()


def _is_plain(value: Any) -> bool:
    return value is not None and not isinstance(value, list | tuple | dict)


def _short(value: Any) -> str:
    return (
        f"{value:.4g}"
        if isinstance(value, float) and abs(value) < 1e4
        else f"{value:.0f}"
        if isinstance(value, float)
        else str(value)
    )


class Silent:
    """Shows nothing."""

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """Nothing."""


class Log:
    """Writes events to a file and shows them.

    Args:
        path: log.jsonl; made if missing, otherwise continued.
        display: who shows the events to a person.

    Raises:
        ReadWriteError: the file cannot be written (also by every method).
    """

    def __init__(self, path: Path, display: Display) -> None:
        self.path = path
        self.display = display
        self._others: list[Display] = []
        self._open()

    def _open(self) -> None:
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab")
            if self._file.tell() and not self.path.read_bytes().endswith(b"\n"):
                self._file.write(b"\n")  # a line that a kill tore off stays alone and is skipped by readers

    def event(self, name: str, update: int | None = None, **fields: Any) -> None:
        """Write and show one event; a number that is not finite is written as null."""
        record = {"time": round(time.time(), 3), "event": name, "update": update, **fields}
        with writing(self.path):
            self._file.write(json.dumps(_finite(record), ensure_ascii=False, allow_nan=False).encode() + b"\n")
            self._file.flush()
        for display in (self.display, *self._others):
            display.event(name, update, fields)

    @contextmanager
    def shown_to(self, display: Display) -> Iterator[None]:
        """A block whose events are shown to one more."""
        self._others.append(display)
        try:
            yield
        finally:
            self._others.remove(display)

    def rewind(self, update: int, *, is_validated: bool = True) -> None:
        """Take out what a training that goes on after `update` will say again, and lines that were torn off.

        Args:
            update: the last that counts.
            is_validated: whether its validation counts too.
        """
        self._file.close()
        kept = [
            line for line in self.path.read_bytes().split(b"\n") if _is_kept(line, update, is_validated=is_validated)
        ]
        write_bytes(self.path, b"".join(line + b"\n" for line in kept))
        self._open()

    def close(self) -> None:
        """Close the file."""
        with writing(self.path):  # of a full disk, what could not be written is tried once more
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _is_kept(line: bytes, update: int, *, is_validated: bool) -> bool:
    record = parse_line(line)
    if record is None:
        return False
    if record["event"] not in REPEATED or record["update"] is None:
        return True
    is_over = is_validated or record["event"] != "validation"
    return bool(record["update"] <= update if is_over else record["update"] < update)


def parse_line(line: bytes) -> dict[str, Any] | None:
    """One event, or None for a line that is empty, torn or not one of ours."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        return None
    is_ours = isinstance(record.get("update", ""), int | None) and isinstance(record.get("time"), int | float)
    return record if is_ours else None
