"""`mtkit average`: average checkpoints into one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import forbid_repeated


def average(
    checkpoints: Annotated[
        list[Path], typer.Argument(metavar="CHECKPOINT", help="Checkpoint or model folders to average.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="MODEL", help="Model folder to write.")],
) -> None:
    """Average the weights of checkpoints into a model folder."""
    from mtkit.cli.printing import print_data
    from mtkit.pipeline.average import average_models

    forbid_repeated("average", checkpoints)
    average_models(checkpoints, output)
    print_data([str(output)])
