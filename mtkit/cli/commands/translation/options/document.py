"""Translation of a document instead of lines: its options, and the call of the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.documents.translate import DocumentReport
    from mtkit.translate.load import TranslatorSpec
    from mtkit.translate.progress import FlagSummary
    from mtkit.translate.translation import Translation

Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field", metavar="NAME", help="Of CSV, TSV and JSON translate only this column or key (repeatable)."
    ),
]

Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", metavar="NAME", help="Encoding of a document, such as windows-1252. Default: as it declares."
    ),
]


def check_document_options(file: Path, output: Path | None, others: dict[str, object]) -> None:
    """Refuse options that are of lines.

    Args:
        file: the document.
        output: the value of -o.
        others: options of lines by name, and whether they were given.

    Raises:
        UsageError: no output, or an option of lines.
    """
    lines = f"to translate it line by line, give - and < {file}"
    if output is None:
        raise UsageError(f"translate: {file} is translated as a document, which needs -o FILE; {lines}")
    if given := [name for name, is_given in others.items() if is_given]:
        raise UsageError(f"translate: {given[0]} is of lines, but {file} is translated as a document; {lines}")


def model_languages(model: Path) -> tuple[str, str]:
    """Source and target language of a model; errors as `find_model` and `read_metadata`."""
    from mtkit.model_folder.folder import find_model, read_metadata

    metadata = read_metadata(find_model(model))
    return metadata.src_lang, metadata.tgt_lang


def translate_file(
    translator: TranslatorSpec,
    file: Path,
    output: Path,
    *,
    fields: list[str],
    encoding: str | None,
    num_workers: int,
    summary: FlagSummary,
    notify: Callable[[str], None],
) -> DocumentReport:
    """Translate a document sentence by sentence.

    Args:
        translator: what to load.
        file, output: the document and its translation.
        fields: columns of a table, or keys of JSON; none: all.
        encoding: of the document; None: as it declares.
        num_workers: worker processes.
        summary: receives the terms of the translations.
        notify: receives a sentence about a guessed encoding.

    Raises:
        MtkitError: as `translate_document` and `load_translator`.
    """
    from mtkit.documents.choose import format_of
    from mtkit.documents.translate import translate_document
    from mtkit.translate.workers import translator_pool

    src_lang, tgt_lang = model_languages(translator.models[0])
    form = format_of(file, src_lang=src_lang, tgt_lang=tgt_lang, fields=fields, encoding=encoding)
    options = replace(translator.options, with_scores=True, split_sentences=True)
    with translator_pool(replace(translator, options=options).load, num_workers) as translate:

        def counted(lines: Iterable[str]) -> Iterator[Translation]:
            for translation in translate(lines):
                summary.add(translation)
                yield translation

        return translate_document(file, output, form, counted, notify)


def flag_note(report: DocumentReport) -> str | None:
    """One line, such as `2 of 40 texts are flagged: 2 ran into a loop (first: a.html:7)`; None without flags."""
    from mtkit.translate.progress import DESCRIPTIONS

    if not report.flagged:
        return None
    groups = [
        f"{report.flags[flag]:,} {description} ({'first: ' * (report.flags[flag] > 1)}{report.first_flagged[flag]})"
        for flag, description in DESCRIPTIONS.items()
        if report.flags[flag]
    ]
    verb = "texts are" if report.units > 1 else "text is"
    return f"{report.flagged:,} of {report.units:,} {verb} flagged: {'; '.join(groups)}"
