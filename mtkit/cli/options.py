"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Recipe = Annotated[str, typer.Argument(metavar="RECIPE", help="A YAML file, or the name of a shipped recipe.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="key=value", help="Values that replace the recipe's: training.seed=2."),
]


def named_folder(name: str) -> Path:
    """A folder's name from the command line; an empty one, such as of a shell variable not set, is not the folder here.

    Raises:
        BadParameter: the name is empty.
    """
    if not name:
        raise typer.BadParameter("is empty; name a folder, or leave it out for runs/NAME")
    return Path(name)


RunDir = Annotated[
    Path | None,
    typer.Option(
        "--run-dir", metavar="FOLDER", parser=named_folder, help="Where everything goes; runs/NAME if not given."
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start the training over; a finished or begun one is replaced.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only print parameters, memory and expected time; needs no corpus.")
]


MOST_THREADS = 1024  # of a process, or processes side by side; far more than help, and no system gives out any number


class ComputeType(StrEnum):
    """The kinds of numbers to compute with."""

    auto = "auto"
    float32 = "float32"
    bf16 = "bf16"
    int8 = "int8"


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder, or a run folder.")]
Ensemble = Annotated[
    list[Path] | None, typer.Option("--ensemble", metavar="MODEL", help="A further model; may be repeated.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="search.KEY=VALUE", help="Another value for the search.")
]
BatchTokens = Annotated[int | None, typer.Option("--batch-tokens", min=1, help="Size of a batch.")]
ComputeTypeOption = Annotated[ComputeType, typer.Option("--compute-type", help="Numbers.")]
Device = Annotated[str | None, typer.Option("--device", metavar="D", help="cpu, cuda, cuda:1, ...")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, max=MOST_THREADS, help="CPU threads of a worker.")]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, max=MOST_THREADS, help="Processes of one thread; as a long FILE needs."),
]
