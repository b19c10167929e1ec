"""`mtkit new`: a recipe for two text files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def new(
    src: Annotated[Path, typer.Argument(metavar="SRC", help="Text file, one sentence per line.")],
    tgt: Annotated[Path, typer.Argument(metavar="TGT", help="Its translation, line by line.")],
    output: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", help="Recipe to write (default: NAME-SRC-TGT.yaml).")
    ] = None,
    src_lang: Annotated[str | None, typer.Option("--src-lang", metavar="CODE", help="Language of SRC.")] = None,
    tgt_lang: Annotated[str | None, typer.Option("--tgt-lang", metavar="CODE", help="Language of TGT.")] = None,
    docid: Annotated[
        Path | None, typer.Option("--docid", metavar="FILE", help="Document of each line, to split by document.")
    ] = None,
    valid: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--valid", metavar="SRC TGT", help="Validation set (default: split)."),
    ] = None,
    test: Annotated[
        tuple[Path, Path] | None, typer.Option("--test", metavar="SRC TGT", help="Test set (default: split).")
    ] = None,
) -> None:
    """Write a recipe for two text files.

    Guesses the languages, splits valid and test off, and reports what it found in the text.
    """
    from mtkit.cli.printing import print_lines
    from mtkit.corpus.split import Part
    from mtkit.pipeline.setup.new_recipe import NewRecipeOptions, new_recipe, shell_word

    held_out: dict[Part, tuple[Path, Path]] = {
        **({"valid": valid} if valid else {}),
        **({"test": test} if test else {}),
    }
    recipe = new_recipe(src, tgt, output, NewRecipeOptions(src_lang, tgt_lang, docid, held_out))
    print_lines([*recipe.notes, f"next: mtkit run {shell_word(recipe.path)}"])
