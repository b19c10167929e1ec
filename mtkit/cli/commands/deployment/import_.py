"""`mtkit import`: a model of another program as a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def import_(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Folder in the layout of Hugging Face or Marian, or ORG/NAME.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Model folder to write.")],
    src_lang: Annotated[
        str | None, typer.Option("--src-lang", metavar="LANG", help="Source language (default: as the model says).")
    ] = None,
    tgt_lang: Annotated[
        str | None, typer.Option("--tgt-lang", metavar="LANG", help="Target language (default: as the model says).")
    ] = None,
    to: Annotated[
        Literal["float32", "bf16", "int8", "int4"],
        typer.Option("--to", help="Number format of the large matrices on disk."),
    ] = "float32",
) -> None:
    """Import a model of another program.

    Marian, OPUS-MT, M2M-100, NLLB, mBART, T5 and MADLAD-400 come in, with weights, tokenizers and search settings, so
    that the translations are those of the other program. The result is a model folder like any other.
    """
    import sys

    from mtkit.cli.printing import print_data
    from mtkit.display import printable
    from mtkit.importers.import_model import Languages, import_model

    for sentence in import_model(model, output, Languages(src_lang, tgt_lang), to):
        sys.stderr.write(printable(sentence) + "\n")
    print_data([str(output)])
