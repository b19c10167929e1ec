"""`mtkit check`: faults of parallel text, with their places."""

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
    RunDir,
    SrcLang,
    TgtLang,
    forbid_overwriting_input,
    is_recipe_of_text,
)


def check(
    words: ParallelText,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    valid: HeldOutValid = None,
    test: HeldOutTest = None,
    preview: Annotated[
        int | None,
        typer.Option(
            "--preview", min=1, metavar="N", help="Of a preprocessed recipe: N pairs as the model reads them."
        ),
    ] = None,
    run_dir: RunDir = None,
    encoding: Encoding = None,
    json: JsonFile = None,
) -> None:
    """Look for faults in parallel text and say where they are.

    Errors make a training or its scores wrong, and the exit code is 65: lines that are not opposite their translations,
    bytes that are not UTF-8, other languages, lines of valid and test in the training text. Warnings do not change it.

    With --preview nothing is checked: the first pairs of the training are shown with their tokens, tags and noise.
    """
    from mtkit.errors import UsageError

    files = [Path(word) for word in words]
    is_recipe = is_recipe_of_text("check", words, (src_lang, tgt_lang, valid, test, encoding))
    if preview is not None and not is_recipe:
        raise UsageError("check: --preview shows the training data of a recipe; name one, such as that of mtkit new")
    forbid_overwriting_input("check", json, files)

    from mtkit.cli.printing import print_lines, print_notes, print_results
    from mtkit.errors import DataError
    from mtkit.pipeline.check_text import check_files, check_recipe

    def notify(text: str) -> None:
        print_notes([text])

    if is_recipe:
        from mtkit.recipe.recipe import read_recipe

        recipe = read_recipe(words[0], words[1:], allow_commands=True).recipe
        if preview is not None:
            from mtkit.pipeline.preview import preview_lines

            print_lines(preview_lines(recipe, run_dir, preview))
            return
        reports = list(check_recipe(recipe.corpus, notify))
    else:
        held_out = [each for each in (valid, test) if each is not None]
        reports = [check_files(files, (src_lang, tgt_lang), held_out, notify, encoding)]
    lines = [line for report in reports for line in report.lines()]
    print_results([], notes=lines, content=[report.as_json() for report in reports], json_file=json)
    if count := sum(report.num_errors for report in reports):
        kinds = "one kind of error makes" if count == 1 else f"{count} kinds of errors make"
        raise DataError(f"{kinds} training or scores wrong; mend the text, then check it again")
