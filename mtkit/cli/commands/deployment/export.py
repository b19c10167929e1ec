"""`mtkit export`: convert a model for another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import Model
from mtkit.search.support import ExportTarget


def export(
    model: Model,
    to: Annotated[ExportTarget, typer.Option("--to", help="Program or format.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write; FILE.argosmodel for argos.")
    ],
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Source text for comparing the translations of both."),
    ] = None,
) -> None:
    """Convert a model for CTranslate2, ONNX, Hugging Face or Argos.

    100 lines are translated by the model and by its export, and at least 99 must be equal. The other program runs what
    is exported; mtkit does not.
    """
    import sys
    from importlib import import_module

    from mtkit.cli.printing import print_data

    write = getattr(import_module(f"mtkit.export.{to}"), f"export_{to}")
    sys.stderr.write(write(model, output, check_file=check) + "\n")
    print_data([str(output)])
