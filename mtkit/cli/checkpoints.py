"""`mtkit checkpoints`: what a run has saved, and whether it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def checkpoints(run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]) -> None:
    """List the checkpoints of a run and compare every byte with what was written; exits 65 if one is damaged."""
    from mtkit.cli.printing import print_lines
    from mtkit.errors import DamagedError
    from mtkit.training.checkpoints.listing import survey

    found = survey(run)
    print_lines([one.line() for one in found])
    damaged = [one for one in found if one.fault is not None]
    if damaged:
        raise DamagedError(f"{run}: {len(damaged)} of {len(found)} checkpoints are damaged")
