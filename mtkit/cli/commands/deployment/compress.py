"""`mtkit compress`: a smaller or faster copy of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from mtkit.cli.options import (
    ComputeTypeOption,
    Format,
    Model,
    ModelSrcLang,
    ModelTgtLang,
    Prefix,
    Tag,
    Threads,
    parse_prefix,
)
from mtkit.compression import Target


def compress(
    model: Model,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="MODEL", help="Model folder to write.")],
    to: Annotated[
        Target | None,
        typer.Option(
            "--to", help="Weights of 16, 8 or 4 bits; fewer weights, heads, feed-forward units, layers or tokens."
        ),
    ] = None,
    fraction: Annotated[
        float | None,
        typer.Option(
            "--fraction",
            min=0.0,
            max=1.0,
            help="Share of weights, heads or units to remove (default: 0.4; heads with gates: the closed ones).",
        ),
    ] = None,
    encoder_layers: Annotated[
        int | None,
        typer.Option(
            "--encoder-layers", min=1, help="Encoder layers that half-depth keeps (default: half, rounded up)."
        ),
    ] = None,
    decoder_layers: Annotated[
        int | None,
        typer.Option(
            "--decoder-layers", min=1, help="Decoder layers that half-depth keeps (default: half, rounded up)."
        ),
    ] = None,
    languages: Annotated[
        str | None,
        typer.Option("--languages", metavar="L,L", help="Languages that are kept (default with --text: all)."),
    ] = None,
    texts: Annotated[
        list[Path] | None,
        typer.Option("--text", metavar="FILE", help="Text whose tokens --to vocabulary keeps; repeatable."),
    ] = None,
    src: Annotated[
        Path | None,
        typer.Option("--src", metavar="FILE", help="Source of a validation text, to choose heads and measure with."),
    ] = None,
    ref: Annotated[Path | None, typer.Option("--ref", metavar="FILE", help="Its reference translation.")] = None,
    max_loss: Annotated[
        float | None, typer.Option("--max-loss", help="BLEU that may be lost; the model is not written if more is.")
    ] = None,
    tag: Tag = None,
    prefix: Prefix = None,
    src_lang: ModelSrcLang = None,
    tgt_lang: ModelTgtLang = None,
    compute_type: ComputeTypeOption = "auto",
    threads: Threads = None,
    form: Format = None,
) -> None:
    """Make a smaller or faster copy of a model.

    The result is a model folder like any other. With --src and --ref the table also has the BLEU and the speed of both
    models. --languages en,de --text FILE alone is --to vocabulary: it keeps the tokens of these languages and texts.
    """
    import torch

    from mtkit.cli.printing import print_results
    from mtkit.compression.compress import CompressionOptions, compress_model
    from mtkit.compression.vocabulary import VocabularyCut
    from mtkit.errors import UsageError
    from mtkit.translate.reference_text import read_reference_text

    if (src is None) != (ref is None):
        raise UsageError("compress: give both --src and --ref, or neither")
    before = parse_prefix(tag, prefix, src_lang, tgt_lang)
    if src is None and (before != parse_prefix(None, None) or compute_type != "auto"):
        raise UsageError(
            "compress: --tag, --prefix, --src-lang, --tgt-lang and --compute-type have no effect without --src and "
            "--ref; omit them"
        )
    if to is None:
        if languages is None and not texts:
            raise UsageError(f"compress: --to is missing; give one of {', '.join(get_args(Target))}")
        to = "vocabulary"
    if threads is not None:
        torch.set_num_threads(threads)
    text = None
    if src is not None and ref is not None:
        text = read_reference_text(src, ref, before)
    options = CompressionOptions(
        to=to,
        fraction=fraction,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        text=text,
        max_loss=max_loss,
        compute_type=compute_type,
        vocabulary=VocabularyCut(tuple(texts or ()), tuple(filter(None, map(str.strip, (languages or "").split(","))))),
    )
    print_results([compress_model(model, output, options)], form)
