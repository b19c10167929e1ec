"""Progress of a stage on stderr: a live display on a terminal, plain lines in a pipe or a file; bars of downloads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Column, Table
from rich.text import Text

from mtkit.cli.printing import is_terminal, terminal
from mtkit.display import format_clock, in_current_folder, printable
from mtkit.training.monitoring.log import Display, NotebookDisplay, PlainDisplay, short

SIDES = ("src", "hyp", "ref")


@contextmanager
def open_display() -> Iterator[Display]:
    """Yield a live display if stderr is a terminal, a plain one otherwise.

    The shell of a notebook's cell (!mtkit run) is a terminal whose output can only begin a line again.
    """
    if not is_terminal() or "JPY_PARENT_PID" in os.environ:
        yield NotebookDisplay(terminal()) if is_terminal() else PlainDisplay()
        return
    live = LiveDisplay(Console(file=terminal()))
    try:
        yield live
    finally:
        live.close()


class LiveDisplay:
    """A few lines that are redrawn while a model trains; all other events scroll past above them.

    The lines show a progress bar with loss, tokens per second and time left, the last validation with the best BLEU,
    and the current translation of one validation sentence.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_train: Mapping[str, Any] = {}
        self._last_validation: Mapping[str, Any] = {}
        self._best_bleu = 0.0
        self._live: Live | None = None
        self._progress = Progress(
            TextColumn("update {task.completed:,.0f} of {task.total:,.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[rates]}", markup=False, table_column=Column()),  # a plain column, which wraps
            console=console,
            auto_refresh=False,
        )
        self._task = self._progress.add_task("training", total=1, rates="")

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """Show one event: of training (see monitoring/log.py) in the live lines, of another stage as a line."""
        if name == "begin" and "max_updates" in fields and self._live is None:
            self._print_event("training begins", None, fields)
            self._progress.update(self._task, total=fields["max_updates"])
            self._live = Live(self._render(), console=self._console, auto_refresh=False)
            self._live.start()
            self._console.show_cursor(True)  # a second Ctrl-C kills the process and would leave it hidden
        elif name == "begin":
            self._print_event(name, None, fields)
        elif name == "train":
            self._last_train = fields
            rates = []  # loss, tokens per second and time left, if the event has them
            if _is_number(fields, "loss"):
                rates.append(f"loss {fields['loss']:.3f}")
            if _is_number(fields, "tokens_per_second"):
                rates.append(f"{fields['tokens_per_second']:,.0f} tokens/s")
            if _is_number(fields, "seconds_left"):
                rates.append(f"{format_clock(fields['seconds_left'])} left")
            self._progress.update(self._task, rates="  ".join(rates))
            if "scheduled_update" in fields:
                self._progress.update(self._task, completed=fields["scheduled_update"])
        else:
            if name == "validation":
                self._last_validation = {**fields, "update": update}
                if _is_number(fields, "bleu"):
                    self._best_bleu = max(fields["bleu"], self._best_bleu)
            if name != "validation" or self._live is None:
                self._print_event(name, update, fields)
        if update is not None and self._live is not None and "scheduled_update" not in self._last_train:
            self._progress.update(self._task, completed=update)
        if self._live is not None:
            self._live.update(self._render(), refresh=True)
        if name in ("end", "interrupted"):
            self.close()

    def close(self) -> None:
        """Stop redrawing: the last lines stay on the screen, and the cursor is visible again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print_event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        place = "" if update is None else f"update {update:,}: "
        if "result" in fields:  # an event of a stage
            self._console.print(Text(printable(in_current_folder(f"{name}: {fields['result']}"))))
            return
        values = "  ".join(
            f"{key} {short(value, ',.4g')}" if isinstance(value, float) else f"{key} {value}"
            for key, value in fields.items()
            if isinstance(value, str | int | float)
        )
        self._console.print(Text(printable(in_current_folder(f"{place}{name}  {values}".rstrip()))))

    def _render(self) -> Group:
        fields = self._last_validation
        if not fields:
            return Group(self._progress)
        texts = [f"validation at update {fields['update']:,}:"] if fields["update"] is not None else ["validation:"]
        if _is_number(fields, "perplexity"):
            texts.append(f"perplexity {fields['perplexity']:.2f}")
        if _is_number(fields, "bleu"):
            texts.append(f"BLEU {fields['bleu']:.1f} (best {self._best_bleu:.1f})")
        sample = Table.grid(padding=(0, 1))
        for side, text in zip(SIDES, fields.get("sample") or [], strict=False):
            style = "bold" if side == "hyp" else "dim"
            sample.add_row(Text(f"  {side}", style="dim"), Text(printable(text), style=style, overflow="ellipsis"))
        return Group(self._progress, Text("  ".join(texts)), *([sample] if sample.row_count else []))


def _is_number(fields: Mapping[str, Any], key: str) -> bool:
    return key in fields and isinstance(fields[key], int | float)


@contextmanager
def download_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a callback `(file name, bytes received, total bytes or None)` that draws one bar for each file."""
    if not is_terminal():
        yield lambda name, done, total: None
        return
    columns = TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(file=terminal())) as bars:
        tasks = {}

        def report(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(printable(name), total=total)
            bars.update(tasks[name], completed=done, total=total)

        yield report
