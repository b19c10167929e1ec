"""`mtkit watch`: a training that runs elsewhere, or has ended, seen from here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def watch(run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]) -> None:
    """Show a running or finished training from its log; Ctrl-C ends the watching, not the training."""
    from mtkit.cli.display import display
    from mtkit.training.monitoring.follow import watch as follow

    with display() as shown:
        follow(run, shown)
