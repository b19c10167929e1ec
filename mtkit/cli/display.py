"""What a person sees while a stage works: a live picture on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from mtkit.training.monitoring.log import Display, PlainDisplay

SIDES = ("src", "hyp", "ref")


@contextmanager
def display() -> Iterator[Display]:
    """The display that suits stderr, for as long as the block lasts."""
    if not is_terminal():
        yield PlainDisplay()
        return
    live = LiveDisplay(Console(stderr=True))
    try:
        yield live
    finally:
        live.close()


def is_terminal() -> bool:
    """Whether somebody looks at stderr, on a terminal that can move its cursor."""
    return sys.stderr.isatty() and "TERM" in os.environ and os.environ["TERM"] not in ("", "dumb")


class LiveDisplay:
    """Training in some lines that are drawn over and over; other events scroll by above them.

    The lines: updates done, a bar, loss, tokens/s, time left; the last validation and the best; and one translation
    of a validation sentence that changes as the model learns.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_train: Mapping[str, Any] = {}
        self._last_validation: Mapping[str, Any] = {}
        self._best = 0.0
        self._live: Live | None = None
        self._progress = Progress(
            TextColumn("update {task.completed:,.0f} of {task.total:,.0f}"),
            BarColumn(bar_width=24),
            _Rates(self),
            console=console,
            auto_refresh=False,
        )
        self._task = self._progress.add_task("training", total=1)

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """Show one event of training (see training/log.py), or of another stage as a line."""
        if name == "begin":
            self._begin(fields)
        elif name == "train":
            self._last_train = fields
        elif name == "validation":
            self._validation(update, fields)
        else:
            self._scroll(name, update, fields)
        if update is not None and self._live is not None:
            self._progress.update(self._task, completed=update)
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
        if name in ("end", "interrupted"):
            self.close()

    def close(self) -> None:
        """Leave the last picture on the screen and let the cursor go."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _begin(self, fields: Mapping[str, Any]) -> None:
        if "max_updates" not in fields or self._live is not None:
            self._scroll("begin", None, fields)
            return
        self._scroll("training begins", None, fields)
        self._progress.update(self._task, total=fields["max_updates"])
        self._live = Live(self._picture(), console=self._console, auto_refresh=False)
        self._live.start()
        self._console.show_cursor(True)  # a second Ctrl-C ends the process at once, and would leave it hidden

    def _validation(self, update: int | None, fields: Mapping[str, Any]) -> None:
        self._last_validation = {**fields, "update": update}
        if _is_number(fields, "bleu"):
            self._best = max(fields["bleu"], self._best)
        if self._live is None:
            self._scroll("validation", update, fields)

    def _scroll(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        place = "" if update is None else f"update {update:,}: "
        if "result" in fields:  # of a stage
            self._console.print(Text(f"{name}: {fields['result']}"))
            return
        said = "  ".join(f"{key} {_short(value)}" for key, value in fields.items() if _is_plain(value))
        self._console.print(Text(f"{place}{name}  {said}".rstrip()))

    def _picture(self) -> Group:
        return Group(self._progress, *self._validation_lines())

    def rates(self) -> str:
        """Loss, speed and time left, as far as they are known."""
        fields = self._last_train
        parts = []
        if _is_number(fields, "loss"):
            parts.append(f"loss {fields['loss']:.3f}")
        if _is_number(fields, "tokens_per_second"):
            parts.append(f"{fields['tokens_per_second']:,.0f} tokens/s")
        if _is_number(fields, "seconds_left"):
            parts.append(f"{clock(fields['seconds_left'])} left")
        return "  ".join(parts)

    def _validation_lines(self) -> list[Text | Table]:
        fields = self._last_validation
        if not fields:
            return []
        parts = [f"validation at update {fields['update']:,}:"] if fields["update"] is not None else ["validation:"]
        if _is_number(fields, "perplexity"):
            parts.append(f"perplexity {fields['perplexity']:.2f}")
        if _is_number(fields, "bleu"):
            parts.append(f"BLEU {fields['bleu']:.1f} (best {self._best:.1f})")
        lines: list[Text | Table] = [Text("  ".join(parts))]
        if fields.get("sample"):
            lines.append(_sample(fields["sample"]))
        return lines


class _Rates(ProgressColumn):
    """The column of numbers to the right of the bar."""

    def __init__(self, owner: LiveDisplay) -> None:
        super().__init__()
        self._owner = owner

    def render(self, task: Task) -> Text:
        """Only what the last event said."""
        return Text(self._owner.rates())


def _sample(texts: list[str]) -> Table:
    table = Table.grid(padding=(0, 1))
    for side, text in zip(SIDES, texts, strict=False):
        style = "bold" if side == "hyp" else "dim"
        table.add_row(Text(f"  {side}", style="dim"), Text(text, style=style, overflow="ellipsis"))
    return table


def clock(seconds: float) -> str:
    """90 -> 1:30; 3700 -> 1:01:40."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _is_number(fields: Mapping[str, Any], key: str) -> bool:
    return key in fields and isinstance(fields[key], int | float)


def _short(value: str | float) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)
