"""`mtkit fetch`: download a public corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import SrcLang, TgtLang


def fetch(
    corpus: Annotated[
        str,
        typer.Argument(metavar="CORPUS", help="multi30k, or a name in an index, such as sacrebleu:wmt14/full#en,de."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="Of multi30k: folder to write (default: data/CORPUS)."),
    ] = None,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
) -> None:
    """Download a public corpus, and print the paths of its files.

    Names are those of sacreBLEU (sacrebleu:wmt14/full), OPUS (opus:TED2020) and mtdata (mtdata:ID); every command that
    takes parallel text takes them too, as recipes do. They are kept in the folder that MTKIT_DATA names.
    """
    from mtkit.cli.display import download_progress
    from mtkit.cli.printing import print_data, print_notes
    from mtkit.errors import UsageError
    from mtkit.io import fetch as library
    from mtkit.text.corpora import KINDS, VARIABLE, named_corpus

    langs = (src_lang or "", tgt_lang or "")
    found = named_corpus(corpus, langs)
    if found is not None and output is not None:
        raise UsageError(f"fetch: -o: {found.name} is kept in the folder that {VARIABLE} names; omit it")
    if found is None and any(langs):
        raise UsageError(
            f"fetch: --src-lang and --tgt-lang are of names such as {', '.join(f'{k}:NAME' for k in KINDS)}"
        )
    with download_progress() as report_progress:
        if found is not None:
            found.fetch(lambda text: print_notes([text]), report_progress)
        folder = output if output is not None else Path("data") / corpus
        files = found.files if found is not None else library.fetch(corpus, folder, progress=report_progress)
    print_data(str(file) for file in files or ())
