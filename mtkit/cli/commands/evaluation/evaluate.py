"""`mtkit evaluate`: score translations against references, or translate and score the test sets of a run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import JsonFile, forbid_overwriting_input, forbid_repeated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtkit.evaluation.comparison import Comparison
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
    flores200 = "flores200"
    char = "char"
    none = "none"


def evaluate(
    hyps: Annotated[
        list[Path] | None,
        typer.Argument(metavar="HYP", help="Translations, one file for each system; - is stdin."),
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
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="LIST", help="Metrics: bleu, chrf, chrf++, ter, moses, with commas.")
    ] = "bleu,chrf,ter",
    intervals: Annotated[
        bool, typer.Option("--intervals/--no-intervals", help="95% intervals and paired tests by resampling.")
    ] = True,
    length_groups: Annotated[
        bool, typer.Option("--by-length", help="Also score by length of the source, or of the reference.")
    ] = False,
    docid: Annotated[
        Path | None, typer.Option("--docid", metavar="FILE", help="Also score by document; one name per line.")
    ] = None,
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

    Give either HYP... --ref REF, or --run RUN_FOLDER. SacreBLEU signatures are printed below the scores. With several
    systems, each is compared with the first by paired bootstrap and paired approximate randomisation.
    """
    from mtkit.errors import UsageError

    names = _metric_names(metrics, moses=moses)
    if run is not None and not hyps and not ref:
        if src is not None or lang is not None or tokenize != BleuTokenizer.auto:
            raise UsageError(
                "evaluate: with --run the recipe names text, language and tokenizer; omit --src, --lang and --tokenize"
            )
        if length_groups or docid is not None or metrics != "bleu,chrf,ter":
            raise UsageError("evaluate: --metrics, --by-length and --docid need HYP... --ref REF; omit --run")
        if not intervals:
            raise UsageError("evaluate: --run computes no intervals; omit --no-intervals")
        _evaluate_run(run, json, ["moses"] if moses else [])
        return
    if run is not None or not hyps or not ref:
        last = f"; if {hyps[-1]} is the reference: --ref {hyps[-1]}" if hyps and len(hyps) > 1 and not ref else ""
        raise UsageError(f"evaluate: give either HYP... --ref REF, or --run RUN_FOLDER{last}")
    from mtkit.cli.input import read_input_lines
    from mtkit.evaluation.comparison import by_document, by_length, compare
    from mtkit.evaluation.score import read_texts
    from mtkit.evaluation.tokenizer_choice import choose_tokenizer

    forbid_overwriting_input("evaluate", json, [*hyps, *ref, src, docid])
    if [*hyps, *ref, src, docid].count(Path("-")) > 1:
        raise UsageError("evaluate: - is stdin, which can be read once; write the other text to a file")
    for files in (hyps, ref):
        forbid_repeated("evaluate", files)
    texts = read_texts(hyps, ref, src, read_input_lines)
    groups: dict[str, list[int]] = {}
    if length_groups:
        measured = texts[ref[0] if src is None else src]
        groups |= by_length(measured, characters=choose_tokenizer(measured, None).is_unspaced)
    if docid is not None:
        groups |= by_document(list(read_input_lines(docid)), len(texts[ref[0]]), str(docid))
    result = compare(
        {str(hyp): texts[hyp] for hyp in hyps},
        [texts[path] for path in ref],
        names,
        tgt_lang=lang,
        tokenize=tokenize.value,
        src=None if src is None else texts[src],
        intervals=intervals,
        groups=groups,
    )
    _print_result(result)
    _print_notes(result.scores)
    if json is not None:
        from mtkit.io.files import write_json

        write_json(json, result.as_dict())


def _metric_names(text: str, *, moses: bool) -> list[MetricName]:
    """Parse --metrics and --moses.

    Raises:
        UsageError: a name is unknown, or there is none.
    """
    from typing import get_args

    from mtkit.errors import UsageError
    from mtkit.evaluation.config import MetricName

    known = get_args(MetricName)
    names = [*text.lower().replace(",", " ").split(), *(["moses"] if moses else [])]
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"evaluate: --metrics: no such metric: {unknown[0]}; the metrics are {', '.join(known)}")
    if not names:
        raise UsageError(f"evaluate: --metrics is empty; the metrics are {', '.join(known)}")
    return [name for name in known if name in names]


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


def _print_result(result: Comparison) -> None:
    from mtkit.cli.printing import print_lines, print_table
    from mtkit.evaluation.table import group_table, score_table, signature_lines

    print_table(score_table(result.scores, p_values=result.p_values, best=result.best()))
    if result.groups:
        print_table(group_table(result.groups.values()))
    print_lines([*signature_lines(result.scores), *result.tests])


def _print_notes(scores: Mapping[str, Scores]) -> None:
    """Notes on stderr: those of all systems once, others after the name of the system."""
    from mtkit.cli.printing import print_notes

    of_all = set.intersection(*(set(each.notes) for each in scores.values())) if len(scores) > 1 else set()
    lines = [note if note in of_all else f"{name}: {note}" for name, each in scores.items() for note in each.notes]
    print_notes(dict.fromkeys(lines))
