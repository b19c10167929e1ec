"""`mtkit plot`: the curves of runs, or the attention of one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plot(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders; with --attention also a MODEL.")],
    output: Annotated[Path, typer.Option("-o", metavar="FILE", help="The picture to write, PNG.")] = Path("plot.png"),
    attention: Annotated[
        str | None, typer.Option("--attention", metavar="SENTENCE", help="Translate this and draw the attention.")
    ] = None,
) -> None:
    """Draw the learning curves of one or more runs in one picture, or the attention map of a sentence."""
    from mtkit.cli.printing import print_lines
    from mtkit.errors import UsageError

    if attention is None:
        from mtkit.plot.curves import plot_curves

        plot_curves(runs, output)
    elif len(runs) == 1:
        from mtkit.pipeline import plot_attention

        plot_attention(runs[0], attention, output)
    else:
        raise UsageError("plot: --attention takes one MODEL or run folder")
    print_lines([str(output)])
