"""`mtkit watch`: follow a training in another process, or replay a finished one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def watch(run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]) -> None:
    """Follow a training from its log.

    Works for running and finished trainings; Ctrl-C ends only this command.
    """
    from mtkit.cli.display import open_display
    from mtkit.training.monitoring.log import watch as follow

    with open_display() as display:
        follow(run, display)
