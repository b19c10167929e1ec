"""The command line: all commands, grouped as `mtkit --help` lists them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import pairwise
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mtkit import __version__
from mtkit.cli.examples import EXAMPLES
from mtkit.errors import UsageError

# Commands by section of the help, with the folder of their modules in commands/. A command is imported when its name is
# typed: importing all of them, and having typer read their options, takes a tenth of a second.
SECTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Whole pipeline": ("pipeline", ("run", "new")),
    "Prepare text": ("text", ("fetch", "train-bpe", "train-vectors", "encode", "decode", "preprocess")),
    "Train": ("training", ("train", "finetune", "watch", "checkpoints", "average", "study")),
    "Translate": ("translation", ("translate", "score")),
    "Evaluate": ("evaluation", ("evaluate", "bench", "reproduce")),
    "Inspect": ("inspection", ("keys", "describe", "plot", "attention", "nearest", "doctor")),
    "Deploy": ("deployment", ("compress", "export", "import", "serve")),
}
COMMANDS = {name: folder for folder, names in SECTIONS.values() for name in names}


class SectionedGroup(TyperGroup):
    """The `mtkit` command, whose help lists the commands by section."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options and commands; called by the help formatter."""
        _write_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one list for each section; called by the help formatter."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        for title, (_, names) in SECTIONS.items():
            rows = [(name, self.commands[name].get_short_help_str(width)) for name in names]
            rows[0] = (rows[0][0].ljust(max(map(len, COMMANDS))), rows[0][1])  # the same columns in all sections
            with formatter.section(title):
                formatter.write_dl(rows)


# what typer calls the type of a value, and the word for it; the type of an argument is left out
_TYPES = {"<int range>": "N", "<int>": "N", "<float range>": "X", "<float>": "X", "<str>": "TEXT", "<path>": "FILE"}


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    """Write arguments and options with the words of the documentation instead of Python's types."""
    rows: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for parameter in command.get_params(ctx):
        if (record := parameter.get_help_record(ctx)) is not None:
            name, _, type_name = record[0].partition(" <")
            value = _TYPES.get(f"<{type_name}", type_name.rstrip(">"))
            is_named = parameter.param_type_name == "option" and type_name
            rows[parameter.param_type_name].append((f"{name} {value}" if is_named else name, record[1]))
    for kind, title in (("argument", "Arguments"), ("option", "Options")):
        if rows[kind]:
            with formatter.section(title):
                formatter.write_dl(rows[kind])


class CheckedCommand(TyperCommand):
    """A command that refuses both words of a switch, and has help on topics and an example."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options; called by the help formatter."""
        _write_parameters(self, ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line, without the braces of typer; called by the help formatter."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples; called by the help formatter."""
        with formatter.section("Examples"):
            formatter.write("".join(f"  {example}\n" for example in EXAMPLES[str(self.name)]))

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
_SETTINGS = {"help_option_names": ["-h", "--help"]}


def build_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands."""
    app = typer.Typer(
        name="mtkit",
        cls=SectionedGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=_SETTINGS,
    )
    app.callback()(_options)
    for name in names:
        function = name.replace("-", "_") + "_" * iskeyword(name)
        command = getattr(import_module(f"mtkit.cli.commands.{COMMANDS[name]}.{function}"), function)
        summary = (command.__doc__ or "").partition("\n")[0]
        app.command(name, cls=CheckedCommand, short_help=summary, context_settings=_SETTINGS)(command)
    return app


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"mtkit {__version__}")
        raise typer.Exit


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
