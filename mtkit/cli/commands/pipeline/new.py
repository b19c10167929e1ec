"""`mtkit new`: a recipe for two text files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import DocId, RecipeFile, SrcLang, TestFiles, TgtLang, ValidFiles


def new(
    src: Annotated[Path, typer.Argument(metavar="SRC", help="Text file, one sentence per line.")],
    tgt: Annotated[Path, typer.Argument(metavar="TGT", help="Its translation, line by line.")],
    output: RecipeFile = None,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    docid: DocId = None,
    valid: ValidFiles = None,
    test: TestFiles = None,
    exportable: Annotated[
        bool, typer.Option("--exportable", help="Settings that allow export --to huggingface, at a cost that is said.")
    ] = False,
) -> None:
    """Write a recipe for two text files.

    Guesses the languages, splits valid and test off, and reports what it found in the text.
    """
    from mtkit.cli.printing import print_lines
    from mtkit.pipeline.new_recipe import NewRecipeOptions, new_recipe, shell_word

    recipe, notes = new_recipe(src, tgt, NewRecipeOptions(src_lang, tgt_lang, docid, valid, test, output, exportable))
    print_lines([*notes, f"next: mtkit run {shell_word(recipe)}"])
