"""The command line: all commands, grouped as `mtkit --help` lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mtkit import __version__
from mtkit.cli.commands.deployment.compress import compress
from mtkit.cli.commands.deployment.export import export
from mtkit.cli.commands.evaluation.bench import bench
from mtkit.cli.commands.evaluation.evaluate import evaluate
from mtkit.cli.commands.evaluation.reproduce import reproduce
from mtkit.cli.commands.inspection.attention import attention
from mtkit.cli.commands.inspection.describe import describe
from mtkit.cli.commands.inspection.doctor import doctor
from mtkit.cli.commands.inspection.keys import keys
from mtkit.cli.commands.inspection.nearest import nearest
from mtkit.cli.commands.inspection.plot import plot
from mtkit.cli.commands.pipeline.new import new
from mtkit.cli.commands.pipeline.run import run
from mtkit.cli.commands.text.decode import decode
from mtkit.cli.commands.text.encode import encode
from mtkit.cli.commands.text.fetch import fetch
from mtkit.cli.commands.text.preprocess import preprocess
from mtkit.cli.commands.text.train_bpe import train_bpe
from mtkit.cli.commands.text.train_vectors import train_vectors
from mtkit.cli.commands.training.average import average
from mtkit.cli.commands.training.checkpoints import checkpoints
from mtkit.cli.commands.training.study import study
from mtkit.cli.commands.training.train import train
from mtkit.cli.commands.training.watch import watch
from mtkit.cli.commands.translation.score import score
from mtkit.cli.commands.translation.translate import translate
from mtkit.errors import UsageError

SECTIONS: dict[str, dict[str, Callable[..., None]]] = {
    "Whole pipeline": {"run": run, "new": new},
    "Prepare text": {
        "fetch": fetch,
        "train-bpe": train_bpe,
        "train-vectors": train_vectors,
        "encode": encode,
        "decode": decode,
        "preprocess": preprocess,
    },
    "Train": {"train": train, "watch": watch, "checkpoints": checkpoints, "average": average, "study": study},
    "Translate": {"translate": translate, "score": score},
    "Evaluate": {"evaluate": evaluate, "bench": bench, "reproduce": reproduce},
    "Inspect": {
        "keys": keys,
        "describe": describe,
        "plot": plot,
        "attention": attention,
        "nearest": nearest,
        "doctor": doctor,
    },
    "Deploy": {"compress": compress, "export": export},
}
COMMANDS = {name: command for section in SECTIONS.values() for name, command in section.items()}


class SectionedGroup(TyperGroup):
    """The `mtkit` command, whose help lists the commands by section."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one list for each section; called by the help formatter."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            rows = [(name, self.commands[name].get_short_help_str(width)) for name in section]
            rows[0] = (rows[0][0].ljust(max(map(len, COMMANDS))), rows[0][1])  # the same columns in all sections
            with formatter.section(title):
                formatter.write_dl(rows)


class CheckedCommand(TyperCommand):
    """A command that refuses both words of a switch, and has help on topics."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the command's name; called by typer.

        Raises:
            UsageError: a switch is turned on and off, as in `--fresh --resume`, of which typer takes the last.
        """
        words = self._with_help_topic(args)
        rest = super().parse_args(ctx, list(words))
        _, _, parsed = self.make_parser(ctx).parse_args(args=list(words))
        for switch in (each for each in self.params if parsed.count(each) > 1):
            given = [word for word in (*switch.opts, *switch.secondary_opts) if word in words]
            if set(given) & set(switch.opts) and set(given) & set(switch.secondary_opts):
                raise UsageError(f"{ctx.info_name}: {' and '.join(given)} contradict each other; give one of them")
        return rest

    def _with_help_topic(self, words: Sequence[str]) -> list[str]:
        """Replace `--help TOPIC` by the option `--help-TOPIC`, if the command has it."""
        names = {name for parameter in self.params for name in parameter.opts}
        for index, pair in enumerate(pairwise(words)):
            if pair[0] == "--help" and (option := "-".join(pair)) in names:
                return [*words[:index], option, *words[index + 2 :]]
        return list(words)


# help without rich: importing rich takes longer than the rest of --help
app = typer.Typer(name="mtkit", cls=SectionedGroup, rich_markup_mode=None, pretty_exceptions_enable=False)
for _name, _command in COMMANDS.items():
    app.command(_name, cls=CheckedCommand, short_help=(_command.__doc__ or "").partition("\n")[0])(_command)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"mtkit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; allowed anywhere on the command line.")
    ] = False,
) -> None:
    """Machine translation from two text files to a measured, deployable system.

    Start with `mtkit run quickstart`, or with two text files of your own: `mtkit run SRC TGT`. RECIPE is a YAML file or
    the name of a built-in recipe; key=value arguments override its keys. `mtkit COMMAND --help` lists the options of a
    command.
    """
