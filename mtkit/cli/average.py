"""`mtkit average`: the mean of several checkpoints as a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def average(
    checkpoints: Annotated[list[Path], typer.Argument(metavar="CHECKPOINT", help="Checkpoint or model folders.")],
    output: Annotated[Path, typer.Option("-o", metavar="MODEL", help="The model folder to write.")],
) -> None:
    """Write a model folder with the mean of the checkpoints' weights."""
    from mtkit import pipeline
    from mtkit.cli.printing import print_lines

    pipeline.average(checkpoints, output)
    print_lines([str(output)])
