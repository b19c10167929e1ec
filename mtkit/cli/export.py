"""`mtkit export`: a model for another engine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import Model


class Target(StrEnum):
    """Whose model it becomes."""

    ctranslate2 = "ctranslate2"
    onnx = "onnx"


def export(
    model: Model,
    to: Annotated[Target, typer.Option("--to", help="The engine that shall run it.")],
    output: Annotated[Path, typer.Option("-o", metavar="DIR", help="The folder to write.")],
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="Source text to compare translations of.")
    ] = None,
) -> None:
    """Write a model for another engine; 100 lines are translated with both and must agree.

    mtkit translate DIR runs the exported model.
    """
    import sys

    from mtkit.cli.printing import print_lines
    from mtkit.export.ctranslate2 import export_ctranslate2
    from mtkit.export.onnx import export_onnx

    write = {Target.ctranslate2: export_ctranslate2, Target.onnx: export_onnx}[to]
    sys.stderr.write(write(model, output, check_file=check) + "\n")
    print_lines([str(output)])
