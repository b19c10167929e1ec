"""The command line as a whole: a command is one file of this folder and one line of `COMMANDS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from mtkit import __version__
from mtkit.cli.average import average
from mtkit.cli.bench import bench
from mtkit.cli.checkpoints import checkpoints
from mtkit.cli.describe import describe
from mtkit.cli.evaluate import evaluate
from mtkit.cli.export import export
from mtkit.cli.fetch import fetch
from mtkit.cli.plot import plot
from mtkit.cli.preprocess import preprocess
from mtkit.cli.run import run
from mtkit.cli.score import score
from mtkit.cli.study import study
from mtkit.cli.train import train
from mtkit.cli.train_bpe import train_bpe
from mtkit.cli.translate import translate
from mtkit.cli.watch import watch

COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "train-bpe": train_bpe,
    "preprocess": preprocess,
    "train": train,
    "translate": translate,
    "score": score,
    "evaluate": evaluate,
    "average": average,
    "checkpoints": checkpoints,
    "watch": watch,
    "export": export,
    "describe": describe,
    "bench": bench,
    "study": study,
    "plot": plot,
    "fetch": fetch,
}

# no rich in the help: importing it takes longer than everything else that --help needs
app = typer.Typer(name="mtkit", rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
for _name, _command in COMMANDS.items():
    app.command(_name, short_help=(_command.__doc__ or "").partition("\n")[0])(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mtkit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere on the line.")
    ] = False,
) -> None:
    """Machine translation from two text files to a measured, deployable system.

    RECIPE is a YAML file or the name of a shipped one, such as quickstart; key=value overrides a key of it.
    """
