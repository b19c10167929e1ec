"""`mtkit merge`: the files of an array of jobs, joined."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def merge(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Output of `mtkit translate --shard`: hyp.txt of hyp.txt.shard-1-of-8."),
    ],
) -> None:
    """Join the shards of translated files.

    All shards must be complete, unchanged, and of the same text and settings; those that are missing are named. The
    files that were written with a FILE, such as --alignments, are joined too. The shards stay.
    """
    from mtkit.cli.printing import print_data
    from mtkit.io.shards import merge_shards

    print_data(str(path) for file in files for path in merge_shards(file))
