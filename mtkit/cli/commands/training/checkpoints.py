"""`mtkit checkpoints`: list and verify the checkpoints of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def checkpoints(run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]) -> None:
    """List and verify the checkpoints of a run.

    Every file is compared with its checksum; the exit code is 65 if a checkpoint is damaged.
    """
    from mtkit.cli.printing import print_lines
    from mtkit.errors import DamagedError
    from mtkit.training.checkpoints.listing import inspect_checkpoints

    listed = inspect_checkpoints(run)
    print_lines([checkpoint.line() for checkpoint in listed])
    damaged = [checkpoint for checkpoint in listed if checkpoint.error is not None]
    if damaged:
        raise DamagedError(f"{run}: {len(damaged)} of {len(listed)} checkpoints are damaged")
