"""`mtkit push`: a model on the hub of Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def push(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Exported model, or model folder.")],
    name: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Its name on the hub.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files, and connect to nothing.")] = False,
) -> None:
    """Upload an exported model or model folder to a hub.

    The hub is that of Hugging Face, the token that of `hf auth login` or HF_TOKEN. Only files that mtkit wrote are
    uploaded, as one commit.
    """
    from mtkit.cli.printing import print_data, print_lines
    from mtkit.export.push import Upload

    upload = Upload.plan(folder, name)
    print_lines(upload.describe())
    if not dry_run:
        print_data([upload.send(private=private)])
