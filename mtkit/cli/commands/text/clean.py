"""`mtkit clean`: parallel text without its faulty pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import JsonFile, SrcLang, TgtLang, complete_recipe, forbid_overwriting_input, non_empty_path


def clean(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="SRC TGT|FILE|RECIPE [key=value]...",
            help="Two text files, line by line; one file with both sides, such as .tsv or .tmx; or a recipe.",
            autocompletion=complete_recipe,
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", parser=non_empty_path, help="New folder of the result.")
    ],
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    valid: Annotated[
        tuple[Path, Path] | None, typer.Option("--valid", metavar="SRC TGT", help="Set that is held out.")
    ] = None,
    test: Annotated[
        tuple[Path, Path] | None, typer.Option("--test", metavar="SRC TGT", help="Set that is held out.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Remove faulty pairs from parallel text.

    Faults are copies, duplicates, other languages, lines that are no translations, and others. The folder has the kept
    lines, byte for byte and in order, the rejected ones with the reasons, and a report. Of a recipe, the training text
    is cleaned, by the filters of corpus.filters.
    """
    from mtkit.errors import UsageError
    from mtkit.recipe.paths import RECIPE_SUFFIXES, builtin_files

    files = [Path(word) for word in words]
    is_recipe = files[0].suffix in RECIPE_SUFFIXES or words[0] in builtin_files("recipe")
    if not is_recipe and len(words) > 2:
        raise UsageError(f"clean: {len(words)} files; give a source and its translation, or one file with both sides")
    if is_recipe and any((src_lang, tgt_lang, valid, test)):
        raise UsageError(
            "clean: a recipe names its languages and sets; omit --src-lang, --tgt-lang, --valid and --test"
        )
    forbid_overwriting_input("clean", json, files)

    from mtkit.cli.printing import print_notes, print_results
    from mtkit.pipeline.clean_text import clean_files, clean_recipe

    if is_recipe:
        from mtkit.recipe.recipe import read_recipe

        recipe = read_recipe(words[0], words[1:], allow_commands=True).recipe
        reports = list(clean_recipe(recipe.corpus, output))
    else:
        held_out = [each for each in (valid, test) if each is not None]
        reports = [clean_files(files, (src_lang, tgt_lang), held_out, output, lambda text: print_notes([text]))]
    lines = [line for report in reports for line in report.lines()]
    print_results([], notes=lines, content=[report.as_json() for report in reports], json_file=json)
