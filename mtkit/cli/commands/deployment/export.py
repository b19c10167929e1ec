"""`mtkit export`: convert a model for another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mtkit.cli.options import Model


def export(
    model: Model,
    to: Annotated[Literal["ctranslate2", "onnx"], typer.Option("--to", help="Program or format.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write.")],
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Source text for comparing the translations of both."),
    ] = None,
) -> None:
    """Export a model to CTranslate2 or ONNX.

    100 lines are translated by the model and by its export, and at least 99 must be equal. CTranslate2 or onnxruntime
    runs what is exported; mtkit does not.
    """
    import sys

    from mtkit.cli.printing import print_data
    from mtkit.export.ctranslate2 import export_ctranslate2
    from mtkit.export.onnx import export_onnx

    write = {"ctranslate2": export_ctranslate2, "onnx": export_onnx}[to]
    sys.stderr.write(write(model, output, check_file=check) + "\n")
    print_data([str(output)])
