"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Recipe = Annotated[str, typer.Argument(metavar="RECIPE", help="A YAML file, or the name of a shipped recipe.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="key=value", help="Values that replace the recipe's: training.seed=2."),
]
RunDir = Annotated[
    Path | None, typer.Option("--run-dir", metavar="FOLDER", help="Where everything goes; runs/NAME if not given.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start the training over; a finished or begun one is replaced.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only print parameters, memory and expected time; needs no corpus.")
]
