"""`mtkit export`: convert a model for another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mtkit.cli.options import Model


def export(
    model: Model,
    to: Annotated[
        Literal["ctranslate2", "onnx", "huggingface", "argos"], typer.Option("--to", help="Program or format.")
    ],
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

    from mtkit.cli.printing import print_data
    from mtkit.export.argos import export_argos
    from mtkit.export.ctranslate2 import export_ctranslate2
    from mtkit.export.huggingface import export_huggingface
    from mtkit.export.onnx import export_onnx

    write = {
        "ctranslate2": export_ctranslate2,
        "onnx": export_onnx,
        "huggingface": export_huggingface,
        "argos": export_argos,
    }[to]
    sys.stderr.write(write(model, output, check_file=check) + "\n")
    print_data([str(output)])
