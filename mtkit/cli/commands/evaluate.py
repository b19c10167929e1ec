"""`mtkit evaluate`: score translations against references, or translate and score the test sets of a run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import JsonFile, forbid_json_over_input

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtkit.evaluation.config import MetricName
    from mtkit.evaluation.score import Scores


class BleuTokenizer(StrEnum):
    """Tokenizers of BLEU."""

    auto = "auto"
    mteval_13a = "13a"
    intl = "intl"
    zh = "zh"
    ja_mecab = "ja-mecab"
    ko_mecab = "ko-mecab"
    char = "char"
    none = "none"


def evaluate(
    hyps: Annotated[
        list[Path] | None, typer.Argument(metavar="HYP", help="Translations, one file for each system.")
    ] = None,
    ref: Annotated[
        list[Path] | None, typer.Option("--ref", metavar="REF", help="Reference translation (repeatable).")
    ] = None,
    src: Annotated[
        Path | None,
        typer.Option("--src", metavar="SRC", help="Source text; reports translations that are equal to it."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", "--run-dir", metavar="RUN_FOLDER", help="Translate and score the test sets of this run."),
    ] = None,
    json: JsonFile = None,
    moses: Annotated[bool, typer.Option("--moses", help="Also compute BLEU on lower-cased Moses tokens.")] = False,
    lang: Annotated[
        str | None,
        typer.Option("--lang", metavar="CODE", help="Language of the references (default: by script)."),
    ] = None,
    tokenize: Annotated[
        BleuTokenizer, typer.Option("--tokenize", help="sacreBLEU's tokenizer (auto: by language and script).")
    ] = BleuTokenizer.auto,
) -> None:
    """Score translations with BLEU, chrF and TER.

    Give either HYP... --ref REF, or --run RUN_FOLDER. SacreBLEU signatures are printed below the scores.
    """
    from mtkit.errors import UsageError

    if run is not None and not hyps and not ref:
        if src is not None or lang is not None or tokenize != BleuTokenizer.auto:
            raise UsageError(
                "evaluate: with --run the recipe names text, language and tokenizer; omit --src, --lang and --tokenize"
            )
        _evaluate_run(run, json, ["moses"] if moses else [])
        return
    if run is not None or not hyps or not ref:
        raise UsageError("evaluate: give either HYP... --ref REF, or --run RUN_FOLDER")
    from mtkit.evaluation.score import score_files

    forbid_json_over_input(json, [*hyps, *ref, src], "evaluate")
    if twice := [hyp for hyp in hyps if hyps.count(hyp) > 1]:
        raise UsageError(f"evaluate: {twice[0]} is given twice")
    metrics: list[MetricName] = ["bleu", "chrf", "ter"]
    if moses:
        metrics.append("moses")
    scores = score_files(hyps, ref, metrics, tgt_lang=lang, tokenize=tokenize.value, src=src)
    _print_scores(scores)
    _print_notes(scores)
    if json is not None:
        from mtkit.io.files import write_json

        write_json(json, {name: score.as_dict() for name, score in scores.items()})


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


def _print_notes(scores: Mapping[str, Scores]) -> None:
    """Notes on stderr: those of all systems once, others after the name of the system."""
    import sys

    of_all = set.intersection(*(set(each.notes) for each in scores.values())) if len(scores) > 1 else set()
    lines = [note if note in of_all else f"{name}: {note}" for name, each in scores.items() for note in each.notes]
    sys.stderr.writelines(f"{line}\n" for line in dict.fromkeys(lines))
