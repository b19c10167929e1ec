"""`mtkit explain`: why a sentence was translated as it was, and not otherwise."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from mtkit.cli.options import (
    Format,
    HtmlFile,
    JsonFile,
    Model,
    ModelSrcLang,
    ModelTgtLang,
    Prefix,
    Tag,
    Threads,
    parse_prefix,
)


def explain(
    model: Model,
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="The sentence to translate.")],
    instead: Annotated[
        str | None,
        typer.Option("--instead", metavar="TEXT", help="Another translation: where it loses, and by how much."),
    ] = None,
    html: HtmlFile = None,
    json: JsonFile = None,
    form: Format = None,
    tag: Tag = None,
    prefix: Prefix = None,
    src_lang: ModelSrcLang = None,
    tgt_lang: ModelTgtLang = None,
    threads: Threads = None,
) -> None:
    """Explain a translation word by word.

    Each word with its probability, what else could stand there, the source words that it is aligned with, and those
    that it depends on: the log-probability that it loses without them (occlusion).
    """
    from mtkit.analysis.explanation import explain as explain_sentence
    from mtkit.cli.printing import STDOUT, print_lines, print_results
    from mtkit.io.files import write_text
    from mtkit.plot.page import outline, page, table

    result = explain_sentence(
        model, sentence, instead, prefix=parse_prefix(tag, prefix, src_lang, tgt_lang), threads=threads
    )
    if form is None and json != STDOUT:
        print_lines([*result.summary(), ""])
    print_results(result.tables(), form, content=result.as_dict(), json_file=json)
    if html is not None:
        summary = (re.sub(r"(?<=\w) {2,}", ": ", line) for line in result.summary())  # aligned for a terminal
        tables = [
            *map(table, result.tables()),
            *(table(each, bars=each.headings[1:]) for each in result.influence_tables()),
        ]
        write_text(html, page(result.translation.text, [outline(summary), *tables]))
