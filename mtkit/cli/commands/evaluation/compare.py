"""`mtkit compare`: which of several systems is better, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.commands.evaluation.evaluate import (
    LowerIsBetter,
    ScoreCommand,
    ScoreFiles,
    check_language,
    metric_names,
    read_external,
    read_systems,
)
from mtkit.cli.options import HtmlFile, JsonFile, forbid_overwriting_input
from mtkit.evaluation.config import METRIC_NAMES, ReportOptions

if TYPE_CHECKING:
    from mtkit.evaluation.comparison import Comparison

SIGNIFICANT = "significant"  # of --fail-on: p below MAX_P
MAX_P = 0.05


def compare(
    hyps: Annotated[list[Path], typer.Argument(metavar="HYP", help="Translations of two or more systems; - is stdin.")],
    ref: Annotated[list[Path], typer.Option("--ref", metavar="REF", help="Reference translation (repeatable).")],
    src: Annotated[
        Path | None,
        typer.Option("--src", metavar="SRC", help="Source text; tells names and untranslated words from others."),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option("--train", metavar="FILE", help="Target side of the training text, to count its words."),
    ] = None,
    docid: Annotated[
        Path | None, typer.Option("--docid", metavar="FILE", help="Also score by document; one name per line.")
    ] = None,
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="LIST", help=f"{', '.join(METRIC_NAMES)}, with commas.")
    ] = "bleu,chrf",
    lines: Annotated[int, typer.Option("--lines", min=0, metavar="N", help="Changed lines to show of each kind.")] = 3,
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar=f"X|{SIGNIFICANT}",
            help="Exit with 65 if a system is worse than the first one by more than X in a metric, or significantly.",
        ),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option("--lang", "--tgt-lang", metavar="CODE", help="Language of the references (default: by script)."),
    ] = None,
    json: JsonFile = None,
    html: HtmlFile = None,
    scores: ScoreFiles = None,
    score_command: ScoreCommand = None,
    lower_is_better: LowerIsBetter = None,
) -> None:
    """Say which of several systems is better, and why.

    Each is compared with the first one: paired tests, words and n-grams that one system alone has right, errors by
    class, words by frequency and kind, lengths and documents, and the lines that changed most.
    """
    from mtkit.cli.input import read_input_lines
    from mtkit.cli.printing import STDOUT, print_notes, print_results
    from mtkit.errors import UsageError
    from mtkit.evaluation.comparison import group_table, score_table, signature_lines
    from mtkit.evaluation.reasons import reasons_of

    names = metric_names("compare", metrics)
    if len(hyps) < 2:
        raise UsageError("compare: give translations of two or more systems; mtkit evaluate scores one")
    limit = None if fail_on in (None, SIGNIFICANT) else _points(fail_on)
    if lang is not None:
        check_language(lang)
    inputs = [*hyps, *ref, src, train, docid]
    forbid_overwriting_input("compare", json, inputs)
    forbid_overwriting_input("compare", html, inputs, option="--html")
    if inputs.count(Path("-")) > 1:
        raise UsageError("compare: - is stdin, which can be read once; write the other text to a file")
    texts = read_systems("compare", hyps, ref, src)
    options = ReportOptions(metrics=names, by_length=True)
    if docid is not None:
        options = replace(options, documents=list(read_input_lines(docid)), documents_file=str(docid))
    external = read_external("compare", texts, scores, score_command, lower_is_better)
    result = texts.compare(options, lang, external)
    of_train = None if train is None else list(read_input_lines(train))
    reasons = reasons_of(result, texts.hyps, texts.refs, texts.src, train=of_train)
    content = {
        "systems": result.as_dict(),
        "reasons": [each.as_dict() for each in reasons],
        "line_scores": result.line_scores() if json is not None else {},
    }
    shown = [line for each in reasons for line in ("", *each.summary())]
    shown += [line for each in reasons for line in ("", *each.examples(texts.refs[0], texts.src, lines)) if lines]
    table = score_table(result.scores, p_values=result.p_values, best=result.best())
    print_results([table], notes=[*shown, ""], content=content, json_file=json)
    if json != STDOUT:
        tables = [table for each in reasons for table in each.tables()]
        tables.append(group_table(result.groups, title="Lengths and documents"))
        print_results(tables, notes=["", *signature_lines(result.scores), *result.tests])
    print_notes(dict.fromkeys(note for each in result.scores.values() for note in each.notes))
    if html is not None:
        from mtkit.io.files import write_text
        from mtkit.plot.comparison import comparison_blocks
        from mtkit.plot.page import page

        blocks = comparison_blocks(result, reasons, texts.hyps, texts.refs, texts.src)
        first, *others = result.scores
        write_text(html, page(f"{', '.join(others)} against {first}", blocks))
    if fail_on is not None:
        _require(result, limit)


def _points(text: str) -> float:
    """The points of --fail-on.

    Raises:
        UsageError: it is no number from 0.
    """
    from mtkit.errors import UsageError

    try:
        points = float(text)
    except ValueError:
        points = -1.0
    if not 0 <= points < float("inf"):
        raise UsageError(f"compare: --fail-on {text}: give a number of points, such as 0.5, or {SIGNIFICANT}")
    return points


def _require(result: Comparison, limit: float | None) -> None:
    """Check that no system is worse than the first one.

    Args:
        limit: points that it may lose in a metric; None: any loss that is not significant.

    Raises:
        DataError: a system is worse.
    """
    from mtkit.errors import DataError
    from mtkit.evaluation.config import format_score, heading_of

    losses = [
        f"{system} by {format_score(metric, loss)} {heading_of(metric)} (p {p:.4f})"
        for system, metric, loss, p in result.losses()
        if (loss > 0 and p < MAX_P if limit is None else loss > limit)
    ]
    if losses:
        raise DataError(f"--fail-on: worse than {next(iter(result.scores))}: {', '.join(losses)}")
