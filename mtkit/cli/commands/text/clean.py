"""`mtkit clean`: parallel text without its faulty pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.commands.translation.options import Address, Encoding, EngineOption, ShardOption, ray_cluster
from mtkit.cli.options import (
    HeldOutTest,
    HeldOutValid,
    JsonFile,
    ParallelText,
    SrcLang,
    TgtLang,
    Workers,
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
    workers: Workers = None,
    engine: EngineOption = "local",
    address: Address = None,
    shard: ShardOption = None,
) -> None:
    """Remove faulty pairs from parallel text.

    Faults are copies, duplicates, other languages, lines that are no translations, and others. The folder has the kept
    lines, byte for byte and in order, the rejected ones with the reasons, and a report. Of a recipe, the training text
    is cleaned, by the filters of corpus.filters.

    With --shard the faults of a part are found, for the same command without it.
    """
    from mtkit.errors import UsageError

    if engine == "local" and workers is not None:
        raise UsageError("clean: --workers is of --engine ray; omit it, or give several jobs a --shard each")
    cluster = ray_cluster("clean", engine, address, threads=None, workers=workers)
    files = [Path(word) for word in words]
    is_recipe = is_recipe_of_text("clean", words, (src_lang, tgt_lang, valid, test, encoding))
    forbid_overwriting_input("clean", json, files)

    from mtkit.cli.printing import print_notes, print_results
    from mtkit.pipeline.clean_text import Division, clean_files, clean_recipe

    division = Division(shard, cluster)

    def notify(text: str) -> None:
        print_notes([text])

    if is_recipe:
        from mtkit.recipe.recipe import read_recipe

        recipe = read_recipe(words[0], words[1:], allow_commands=True).recipe
        reports = list(clean_recipe(recipe.corpus, output, notify, division=division))
    else:
        held_out = [each for each in (valid, test) if each is not None]
        found = clean_files(files, (src_lang, tgt_lang), held_out, output, notify, encoding, division=division)
        reports = [] if found is None else [found]
    if shard is not None:
        notify(f"shard {shard.index} of {shard.count} is complete; when all are, run the command without --shard")
        return
    lines = [line for report in reports for line in report.lines()]
    print_results([], notes=lines, content=[report.as_json() for report in reports], json_file=json)
