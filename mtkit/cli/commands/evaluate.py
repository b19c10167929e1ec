"""`mtkit evaluate`: score translations against references, or translate and score the test sets of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import JsonFile, forbid_json_over_input

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtkit.evaluation.config import MetricName
    from mtkit.evaluation.score import Scores


def evaluate(
    hyps: Annotated[
        list[Path] | None, typer.Argument(metavar="HYP", help="Translations, one file for each system.")
    ] = None,
    ref: Annotated[
        list[Path] | None, typer.Option("--ref", metavar="REF", help="Reference translation (repeatable).")
    ] = None,
    src: Annotated[
        Path | None, typer.Option("--src", metavar="SRC", help="Source text; only its number of lines is checked.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", "--run-dir", metavar="RUN_FOLDER", help="Translate and score the test sets of this run."),
    ] = None,
    json: JsonFile = None,
    moses: Annotated[bool, typer.Option("--moses", help="Also compute BLEU on lower-cased Moses tokens.")] = False,
    lang: Annotated[
        str | None, typer.Option("--lang", metavar="CODE", help="Language of the references (default: en).")
    ] = None,
) -> None:
    """Score translations with BLEU, chrF and TER.

    Give either HYP... --ref REF, or --run RUN_FOLDER. SacreBLEU signatures are printed below the scores.
    """
    from mtkit.errors import UsageError

    if run is not None and not hyps and not ref:
        if src is not None or lang is not None:
            raise UsageError("evaluate: with --run the recipe names texts and languages; omit --src and --lang")
        _evaluate_run(run, json, ["moses"] if moses else [])
        return
    if run is not None or not hyps or not ref:
        raise UsageError("evaluate: give either HYP... --ref REF, or --run RUN_FOLDER")
    from mtkit.evaluation.score import score_files

    forbid_json_over_input(json, [*hyps, *ref, src], "evaluate")
    if src is not None:
        _check_source(src, ref[0])
    metrics: list[MetricName] = ["bleu", "chrf", "ter"]
    if moses:
        metrics.append("moses")
    scores = score_files(hyps, ref, metrics, tgt_lang=lang or "en")
    _print_scores(scores)
    if json is not None:
        from mtkit.io.files import write_json

        write_json(json, {name: score.as_dict() for name, score in scores.items()})


def _check_source(src: Path, ref: Path) -> None:
    from mtkit.errors import DataError
    from mtkit.text.lines import count_lines

    counts = count_lines(src), count_lines(ref)
    if counts[0] != counts[1]:
        raise DataError(f"{src} has {counts[0]:,} lines, but {ref} has {counts[1]:,}; the numbers must be equal")


def _evaluate_run(run: Path, json: Path | None, extra_metrics: Sequence[MetricName]) -> None:
    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_lines
    from mtkit.io.files import write_json
    from mtkit.pipeline import stages

    with open_display() as display:
        report = stages.evaluate_run(run, also=extra_metrics, display=display)
    print_lines(report.lines)
    if json is not None:
        write_json(json, report.content)


def _print_scores(scores: Mapping[str, Scores]) -> None:
    from mtkit.cli.printing import print_lines, print_table
    from mtkit.evaluation.table import score_table, signature_lines

    print_table(score_table(scores))
    print_lines(signature_lines(scores))
