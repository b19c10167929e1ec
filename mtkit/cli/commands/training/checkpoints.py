"""`mtkit checkpoints`: list and verify the checkpoints of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import Format, JsonFile


def checkpoints(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    json_file: JsonFile = None,
    form: Format = None,
) -> None:
    """List and verify the checkpoints of a run.

    Every file is compared with its checksum; the exit code is 65 if a checkpoint is damaged. Rank 1 is the best.
    """
    from mtkit.cli.printing import print_results
    from mtkit.errors import DamagedError
    from mtkit.training.checkpoints.checkpoint import checkpoint_table, inspect_checkpoints

    listed = inspect_checkpoints(run)
    print_results([checkpoint_table(listed)], form, json_file=json_file)
    damaged = [checkpoint for checkpoint in listed if checkpoint.error is not None]
    if damaged:
        raise DamagedError(f"{run}: {len(damaged)} of {len(listed)} checkpoints are damaged")
