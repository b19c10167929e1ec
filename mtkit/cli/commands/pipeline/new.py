"""`mtkit new`: a recipe for a parallel text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.commands.translation.options import Encoding
from mtkit.cli.options import DocId, RecipeFile, SrcLang, TestFiles, TgtLang, ValidFiles


def new(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="SRC TGT|FILE", help="Two text files, line by line; or one with both sides, such as .tsv or .tmx."
        ),
    ],
    output: RecipeFile = None,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    docid: DocId = None,
    valid: ValidFiles = None,
    test: TestFiles = None,
    exportable: Annotated[
        bool, typer.Option("--exportable", help="Settings that allow export --to huggingface, at a cost that is said.")
    ] = False,
    encoding: Encoding = None,
) -> None:
    """Write a recipe for a parallel text.

    Guesses the languages, splits valid and test off, and reports what it found in the text.
    """
    from mtkit.cli.printing import print_lines, print_notes
    from mtkit.errors import UsageError
    from mtkit.pipeline.new_recipe import NewRecipeOptions, new_recipe, shell_word

    if len(files) > 2:
        raise UsageError(f"new: {len(files)} texts; give a source and its translation, or one file with both sides")
    options = NewRecipeOptions(src_lang, tgt_lang, docid, valid, test, output, exportable, encoding)
    recipe, notes = new_recipe(files, options, lambda text: print_notes([text]))
    print_lines([*notes, f"next: mtkit run {shell_word(recipe)}"])
