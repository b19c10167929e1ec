"""`mtkit clean`: parallel text without its faulty pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.commands.translation.options import Encoding
from mtkit.cli.options import (
    HeldOutTest,
    HeldOutValid,
    JsonFile,
    ParallelText,
    SrcLang,
    TgtLang,
    forbid_overwriting_input,
    is_recipe_of_text,
    non_empty_path,
)


def clean(
    words: ParallelText,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", parser=non_empty_path, help="New folder of the result.")
    ],
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    valid: HeldOutValid = None,
    test: HeldOutTest = None,
    encoding: Encoding = None,
    json: JsonFile = None,
) -> None:
    """Remove faulty pairs from parallel text.

    Faults are copies, duplicates, other languages, lines that are no translations, and others. The folder has the kept
    lines, byte for byte and in order, the rejected ones with the reasons, and a report. Of a recipe, the training text
    is cleaned, by the filters of corpus.filters.
    """
    files = [Path(word) for word in words]
    is_recipe = is_recipe_of_text("clean", words, (src_lang, tgt_lang, valid, test, encoding))
    forbid_overwriting_input("clean", json, files)

    from mtkit.cli.printing import print_notes, print_results
    from mtkit.pipeline.clean_text import clean_files, clean_recipe

    def notify(text: str) -> None:
        print_notes([text])

    if is_recipe:
        from mtkit.recipe.recipe import read_recipe

        recipe = read_recipe(words[0], words[1:], allow_commands=True).recipe
        reports = list(clean_recipe(recipe.corpus, output, notify))
    else:
        held_out = [each for each in (valid, test) if each is not None]
        reports = [clean_files(files, (src_lang, tgt_lang), held_out, output, notify, encoding)]
    lines = [line for report in reports for line in report.lines()]
    print_results([], notes=lines, content=[report.as_json() for report in reports], json_file=json)
