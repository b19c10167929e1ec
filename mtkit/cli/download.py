"""Progress bars for downloads, shown on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from mtkit.cli.streams import is_terminal, terminal
from mtkit.io.printable import printable


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
