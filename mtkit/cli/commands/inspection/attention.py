"""`mtkit attention`: figures of each attention head of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import (
    Format,
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


def attention(
    model: Model,
    src: Annotated[Path, typer.Option("--src", metavar="FILE", help="Source of a text.")],
    ref: Annotated[Path, typer.Option("--ref", metavar="FILE", help="Its reference translation.")],
    alignments: Annotated[
        Path | None,
        typer.Option(
            "--alignments",
            metavar="FILE",
            help="Word alignments of the text, one line each: 0-0 1-2 2?1, where ? marks a link that is only possible.",
        ),
    ] = None,
    json: JsonFile = None,
    form: Format = None,
    tag: Tag = None,
    prefix: Prefix = None,
    src_lang: ModelSrcLang = None,
    tgt_lang: ModelTgtLang = None,
    threads: Threads = None,
) -> None:
    """Measure the attention heads of a model on a text.

    Entropy and largest weight, the position that a head looks at, its importance for the loss (Michel et al. 2019), and
    the alignment error rate (Och and Ney 2003) of heads that look at the source. Without --alignments the reference is
    IBM Model 1, which preprocessing learned from the training corpus.
    """
    from dataclasses import asdict

    import torch

    from mtkit.analysis.attention import analyse_attention, attention_table
    from mtkit.cli.printing import print_notes, print_results
    from mtkit.translate.reference_text import read_reference_text

    forbid_overwriting_input("attention", json, [src, ref, alignments])
    if threads is not None:
        torch.set_num_threads(threads)
    report = analyse_attention(
        model, read_reference_text(src, ref, parse_prefix(tag, prefix, src_lang, tgt_lang)), alignments
    )
    print_results([attention_table(report)], form, content=asdict(report), json_file=json)
    if report.reference is not None:
        print_notes([f"AER: alignment error rate against {report.reference}"])
