"""`mtkit plot`: learning curves, attention maps, position encodings and gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import ModelSrcLang, ModelTgtLang, Prefix, Tag, forbid_overwriting_input, parse_prefix


def plot(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Run folders; with --attention or --positions one MODEL or RECIPE; with --gradients any of them.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Picture to write: PNG, SVG or PDF.")
    ] = Path("plot.png"),
    attention: Annotated[
        str | None,
        typer.Option("--attention", metavar="SENTENCE", help="Translate this sentence and draw its attention map."),
    ] = None,
    tag: Tag = None,
    prefix: Prefix = None,
    src_lang: ModelSrcLang = None,
    tgt_lang: ModelTgtLang = None,
    positions: Annotated[
        bool, typer.Option("--positions", help="Draw the position encodings of a RECIPE (untrained) or of a MODEL.")
    ] = False,
    gradients: Annotated[
        bool,
        typer.Option(
            "--gradients", help="Draw how the gradient of a token's loss fades with the distance of earlier tokens."
        ),
    ] = False,
) -> None:
    """Draw learning curves, attention, positions or gradients."""
    from mtkit.cli.printing import print_data
    from mtkit.errors import UsageError

    forbid_overwriting_input("plot", output, runs, option="-o")
    before = parse_prefix(tag, prefix, src_lang, tgt_lang)
    if attention is None and before != parse_prefix(None, None):
        raise UsageError("plot: --tag, --prefix, --src-lang and --tgt-lang are for --attention")
    if gradients:
        from mtkit.describe.plots import plot_gradients

        if positions or attention is not None:
            raise UsageError("plot: --gradients excludes --attention and --positions")
        plot_gradients([str(each) for each in runs], output)
    elif positions:
        from mtkit.describe.plots import plot_positions

        if len(runs) != 1 or attention is not None:
            raise UsageError("plot: --positions takes one RECIPE or MODEL and excludes --attention")
        plot_positions(str(runs[0]), output)
    elif attention is None:
        from mtkit.plot.curves import plot_curves

        plot_curves(runs, output)
    elif len(runs) == 1:
        from mtkit.pipeline.plots import plot_sentence_attention

        plot_sentence_attention(runs[0], attention, output, prefix=before)
    else:
        raise UsageError("plot: --attention takes one MODEL or run folder")
    print_data([str(output)])
