"""`mtkit evaluate`: score translations against references, or the test sets of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtkit.evaluation.config import MetricName
    from mtkit.evaluation.score import Scores


def evaluate(
    hyps: Annotated[list[Path] | None, typer.Argument(metavar="HYP", help="Translations, a file a system.")] = None,
    ref: Annotated[list[Path] | None, typer.Option("--ref", metavar="REF", help="Reference; may be repeated.")] = None,
    src: Annotated[Path | None, typer.Option("--src", metavar="SRC", help="Source; its lines are counted.")] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", "--run-dir", metavar="RUN_FOLDER", help="Translate and score this run's test sets."),
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the scores as JSON too.")] = None,
    moses: Annotated[bool, typer.Option("--moses", help="Add BLEU on lower-cased Moses tokens.")] = False,
    lang: Annotated[
        str | None, typer.Option("--lang", metavar="CODE", help="Language of the references; en unless given.")
    ] = None,
) -> None:
    """BLEU, chrF and TER with signatures; either HYP... --ref REF, or --run RUN_FOLDER."""
    from mtkit.errors import UsageError

    if run is not None and not hyps and not ref:
        if src is not None or lang is not None:
            raise UsageError("evaluate: --run knows its texts and their languages; give neither --src nor --lang")
        _evaluate_run(run, json, ["moses"] if moses else [])
        return
    if run is not None or not hyps or not ref:
        raise UsageError("evaluate: give either HYP... --ref REF, or --run RUN_FOLDER")
    from mtkit.cli.output import check_json
    from mtkit.evaluation.score import score_files

    check_json(json, [*hyps, *ref, src], "evaluate")
    if src is not None:
        _check_source(src, ref[0])
    metrics: list[MetricName] = ["bleu", "chrf", "ter"]
    if moses:
        metrics.append("moses")
    scores = score_files(hyps, ref, metrics, tgt_lang=lang or "en")
    _show(scores)
    if json is not None:
        from mtkit.io.files import write_json

        write_json(json, {name: found.as_dict() for name, found in scores.items()})


def _check_source(src: Path, ref: Path) -> None:
    from mtkit.errors import DataError
    from mtkit.text.lines import count_lines

    counts = count_lines(src), count_lines(ref)
    if counts[0] != counts[1]:
        raise DataError(f"{src} has {counts[0]:,} lines, but {ref} has {counts[1]:,}; they must have equally many")


def _evaluate_run(run: Path, json: Path | None, also: Sequence[MetricName]) -> None:
    from mtkit import pipeline
    from mtkit.cli.display import display
    from mtkit.cli.printing import print_lines
    from mtkit.io.files import write_json

    with display() as shown:
        report = pipeline.evaluate_run(run, also=also, display=shown)
    print_lines(report.lines)
    if json is not None:
        write_json(json, report.content)


def _show(scores: Mapping[str, Scores]) -> None:
    from mtkit.cli.printing import print_lines, print_table
    from mtkit.evaluation.table import score_table, signature_lines

    print_table(score_table(scores))
    print_lines(signature_lines(scores))
