"""`mtkit fetch`: download a public corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def fetch(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="Name of the corpus: multi30k.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FOLDER", help="Folder to write (default: data/CORPUS).")
    ] = None,
) -> None:
    """Download a public corpus and verify its checksums."""
    from mtkit.cli.display import download_progress
    from mtkit.cli.printing import print_data
    from mtkit.io import fetch as library

    folder = output if output is not None else Path("data") / corpus
    with download_progress() as report_progress:
        files = library.fetch(corpus, folder, progress=report_progress)
    print_data(str(file) for file in files)
