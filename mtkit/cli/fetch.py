"""`mtkit fetch`: download a known corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def fetch(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="multi30k")],
    output: Annotated[
        Path | None, typer.Option("-o", metavar="FOLDER", help="Where to put it; data/CORPUS if not given.")
    ] = None,
) -> None:
    """Download a corpus whose address and checksums are pinned."""
    from mtkit.cli.download import progress
    from mtkit.cli.printing import print_lines
    from mtkit.io import fetch as library

    folder = output if output is not None else Path("data") / corpus
    with progress() as tell:
        files = library.fetch(corpus, folder, progress=tell)
    print_lines(str(file) for file in files)
