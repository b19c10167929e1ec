"""`mtkit explain`: why a sentence was translated as it was, and not otherwise; where the attention heads look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.commands.translation.options import JsonlInput
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
    forbid_overwriting_input,
    parse_prefix,
)
from mtkit.errors import UsageError


def explain(
    model: Model,
    sentence: Annotated[
        str | None, typer.Argument(metavar="SENTENCE", help="The sentence to translate; default: each line of stdin.")
    ] = None,
    instead: Annotated[
        str | None,
        typer.Option("--instead", metavar="TEXT", help="Another translation: where it loses, and by how much."),
    ] = None,
    jsonl_input: JsonlInput = False,
    src: Annotated[
        Path | None, typer.Option("--src", metavar="FILE", help="Source of a text: figures of each attention head.")
    ] = None,
    ref: Annotated[Path | None, typer.Option("--ref", metavar="FILE", help="Reference translation of --src.")] = None,
    alignments: Annotated[
        Path | None,
        typer.Option(
            "--alignments",
            metavar="FILE",
            help="Word alignments of --src and --ref: 0-0 1-2 2?1, where ? marks a link that is only possible.",
        ),
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
    that it depends on: the log-probability that it loses without them (occlusion). The page of --html adds gradients,
    the attention of every head, and the steps of the beam.

    With --src and --ref instead of a sentence, a table of the attention heads: entropy and largest weight, the position
    that a head looks at, its importance for the loss (Michel et al. 2019), and the alignment error rate (Och and Ney
    2003), against --alignments or IBM Model 1 of the training corpus.
    """
    from dataclasses import asdict

    from mtkit.analysis.attention import analyse_attention, attention_table
    from mtkit.analysis.explanation import Explainer, explanations_page
    from mtkit.cli.input import read_input_lines
    from mtkit.cli.printing import STDOUT, print_lines, print_notes, print_results
    from mtkit.hardware import set_num_threads
    from mtkit.io.files import write_text
    from mtkit.translate.lines import Line, parse_json_lines, text_of
    from mtkit.translate.reference_text import read_reference_text

    before = parse_prefix(tag, prefix, src_lang, tgt_lang)
    if src is not None or ref is not None or alignments is not None:
        if src is None or ref is None or sentence is not None or instead is not None or jsonl_input or html is not None:
            raise UsageError("explain: --src FILE --ref FILE exclude SENTENCE, --instead, --jsonl-input and --html")
        forbid_overwriting_input("explain", json, [src, ref, alignments])
        if threads is not None:
            set_num_threads(threads)
        report = analyse_attention(model, read_reference_text(src, ref, before), alignments)
        print_results([attention_table(report)], form, content=asdict(report), json_file=json)
        if report.reference is not None:
            print_notes([f"AER: alignment error rate against {report.reference}"])
        return
    explainer = Explainer(model, prefix=before, threads=threads)
    texts = iter([sentence]) if sentence is not None else read_input_lines(Path("-"))
    name = "stdin" if sentence is None else "SENTENCE"
    lines: Iterator[Line] = parse_json_lines(texts, name) if jsonl_input else texts
    results = []
    for line in lines:
        if sentence is None and not text_of(line).strip():
            continue
        results.append(explainer.explain(line, instead))
        if form != "json" and json != STDOUT:
            if form is None:
                print_lines([*results[-1].summary(), ""])
            print_results(results[-1].tables(), form)
    content = [each.as_dict() for each in results]
    print_results(
        [], form if form == "json" else None, content=content[0] if sentence is not None else content, json_file=json
    )
    if html is not None and results:
        write_text(html, explanations_page(results))
