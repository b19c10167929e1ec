"""A bar for each file that is downloaded, if somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from mtkit.cli.display import is_terminal


@contextmanager
def progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """What a download calls with the file's name, the bytes there are and the bytes there will be."""
    if not is_terminal():
        yield lambda name, done, total: None
        return
    columns = TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks = {}

        def tell(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done, total=total)

        yield tell
