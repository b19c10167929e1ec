"""`mtkit plot`: learning curves, position encodings and gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import forbid_overwriting_input


def plot(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="Run folders; with --positions one MODEL or RECIPE; with --gradients any of them."
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Picture to write: PNG, SVG or PDF.")
    ] = Path("plot.png"),
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
    """Draw learning curves, positions or gradients."""
    from mtkit.cli.printing import print_data
    from mtkit.errors import UsageError

    forbid_overwriting_input("plot", output, runs, option="-o")
    if gradients:
        from mtkit.describe.plots import plot_gradients

        if positions:
            raise UsageError("plot: --gradients excludes --positions")
        plot_gradients([str(each) for each in runs], output)
    elif positions:
        from mtkit.describe.plots import plot_positions

        if len(runs) != 1:
            raise UsageError("plot: --positions takes one RECIPE or MODEL")
        plot_positions(str(runs[0]), output)
    else:
        from mtkit.plot.curves import plot_curves

        plot_curves(runs, output)
    print_data([str(output)])
