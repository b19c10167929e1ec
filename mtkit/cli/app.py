"""The command line: all commands, grouped as `mtkit --help` lists them."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from itertools import pairwise
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mtkit import __version__
from mtkit.display import fold
from mtkit.errors import UsageError

# Commands by section of the help, with the folder of their modules in commands/. Typer reads the options of a command
# when its name is typed, which for all of them takes a tenth of a second.
SECTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Whole pipeline": ("pipeline", ("run", "new")),
    "Prepare text": (
        "text",
        ("fetch", "check", "clean", "backtranslate", "train-bpe", "train-vectors", "encode", "decode", "preprocess"),
    ),
    "Train": ("training", ("train", "finetune", "watch", "checkpoints", "average", "study")),
    "Translate": ("translation", ("translate", "merge", "score")),
    "Evaluate": ("evaluation", ("evaluate", "compare", "bench", "reproduce")),
    "Inspect": ("inspection", ("explain", "report", "keys", "describe", "plot", "nearest", "doctor")),
    "Deploy": ("deployment", ("compress", "export", "import", "push", "serve")),
}
COMMANDS = {name: folder for folder, names in SECTIONS.values() for name in names}


class SectionedGroup(TyperGroup):
    """The `mtkit` command, whose help lists the commands by section. A command is built when it is asked for."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, None if there is none; called by the parser, for completions and by tests."""
        return build_command(cmd_name) if cmd_name in COMMANDS else None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options, and one list of commands for each section; called by the help formatter."""
        _write_parameters(self, ctx, formatter)
        for title, (_, names) in SECTIONS.items():
            rows = [(name, _function(name)[1]) for name in names]
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
            type_name = re.sub(r"list\[(.*)\]", r"\1", type_name).rstrip(">")  # repeatable, as the help says
            value = _TYPES.get(f"<{type_name}>", type_name)
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
        """The words of the usage line, without what typer writes twice; called by the help formatter."""
        pieces = (re.sub(r"[{}]", "", piece) for piece in super().collect_usage_pieces(ctx))
        return [re.sub(r"^\[\[(.*)\]\]$", r"[\1]", re.sub(r"(\.\.\.)+", "...", piece)) for piece in pieces]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples; called by the help formatter."""
        with formatter.section("Examples"):
            for example in EXAMPLES[str(self.name)]:
                lines = [example] if len(example) + 2 <= formatter.width else fold(example, formatter.width - 6)
                formatter.write("  " + " \\\n    ".join(lines) + "\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the command's name; called by typer.

        Raises:
            UsageError: a switch is turned on and off, as in `--fresh --resume`, of which typer takes the last, or one
                of two values is missing.
        """
        words = list(args)
        names = {name for parameter in self.params for name in parameter.opts}
        for index, pair in enumerate(pairwise(args)):  # `--help TOPIC` is the option `--help-TOPIC`, if there is one
            if pair[0] == "--help" and (option := "-".join(pair)) in names:
                words[index : index + 2] = [option]
                break
        options = (each for each in self.params if each.param_type_name == "option" and each.multiple)
        pairs = {name for each in options if each.metavar == "SRC TGT" for name in each.opts}
        end = words.index("--") if "--" in words else len(words)
        for index in reversed(range(end)):  # typer has no repeated option of two values: each gets the name
            name, has_value, _ = words[index].partition("=")
            second = index + (1 if has_value else 2)
            if name in pairs and second < end and not words[second].startswith("-"):
                words.insert(second, name)
            elif name in pairs and not ctx.resilient_parsing:  # that is completion
                raise UsageError(f"{ctx.info_name}: {name}: give a source and its translation")
        rest = super().parse_args(ctx, list(words))
        _, _, parsed = self.make_parser(ctx).parse_args(args=list(words))
        for switch in (each for each in self.params if parsed.count(each) > 1):
            given = [word for word in (*switch.opts, *switch.secondary_opts) if word in words]
            if set(given) & set(switch.opts) and set(given) & set(switch.secondary_opts):
                raise UsageError(f"{ctx.info_name}: {' and '.join(given)} contradict each other; give one of them")
        return rest


# help without rich: importing rich takes longer than the rest of --help
_SETTINGS = {"help_option_names": ["-h", "--help"]}


def build_app() -> Any:
    """The command line."""
    app = typer.Typer(
        name="mtkit",
        cls=SectionedGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=_SETTINGS,
    )
    app.callback()(_options)
    group: Any = typer.main.get_command(app)
    group.commands = dict.fromkeys(COMMANDS)  # of which only the names are read, see SectionedGroup.get_command
    return group


@cache
def build_command(name: str) -> Any:
    """One command; its module is imported, and typer reads its options."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    function, summary = _function(name)
    app.command(name, cls=CheckedCommand, short_help=summary, context_settings=_SETTINGS)(function)
    return typer.main.get_command(app)


def _function(name: str) -> tuple[Any, str]:
    """The function of a command, and what it does in one line."""
    function = name.replace("-", "_") + "_" * iskeyword(name)
    command = getattr(import_module(f"mtkit.cli.commands.{COMMANDS[name]}.{function}"), function)
    return command, (command.__doc__ or "").partition("\n")[0]


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


EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": ("mtkit run train.en train.de --budget 2h", "mtkit run multi30k-transformer training.seed=2"),
    "new": ("mtkit new train.en train.de --src-lang en --tgt-lang de -o en-de.yaml",),
    "fetch": ("mtkit fetch multi30k", "mtkit fetch sacrebleu:wmt14/full#en,de"),
    "check": ("mtkit check train.en train.de --test test.en test.de", "mtkit check en-de.yaml --json report.json"),
    "clean": ("mtkit clean train.en train.de -o clean --test test.en test.de", "mtkit clean en-de.yaml -o clean"),
    "backtranslate": ("mtkit backtranslate runs/de-en news.de -o synthetic",),
    "merge": ("mtkit merge hyp.txt",),
    "train-bpe": ("mtkit train-bpe train.en train.de --vocab-size 8000 -o joint",),
    "train-vectors": ("mtkit train-vectors train.de -o german.vec --dim 256",),
    "encode": ("mtkit encode joint.model train.en > train.en.tokens",),
    "decode": ("mtkit decode joint.model train.en.tokens",),
    "preprocess": ("mtkit preprocess en-de.yaml",),
    "train": ("mtkit train en-de.yaml training.max_updates=4000",),
    "finetune": (
        "mtkit finetune runs/en-de memory.tmx -o runs/mine --budget 30m",
        "mtkit finetune runs/en-de mine.en mine.de --general train.en train.de -o runs/mine --keep-general 0.5",
    ),
    "watch": ("mtkit watch runs/en-de",),
    "checkpoints": ("mtkit checkpoints runs/en-de",),
    "average": ("mtkit average runs/en-de/checkpoints/update-* -o averaged",),
    "study": ("mtkit study seeds.yaml --dry-run",),
    "translate": (
        "mtkit translate runs/en-de input.en -o output.de",
        "mtkit translate runs/en-de input.en --n-best 5",
    ),
    "score": (
        "mtkit score runs/en-de --src input.en --ref output.de --json -",
        "mtkit score runs/en-de --contrastive agreement.tsv",
    ),
    "evaluate": ("mtkit evaluate first.de second.de --ref reference.de", "mtkit evaluate runs/en-de --by-length"),
    "compare": (
        "mtkit compare first.de second.de --ref reference.de --src source.en",
        "mtkit compare old.de new.de --ref reference.de --fail-on significant --json comparison.json",
    ),
    "bench": ("mtkit bench runs/en-de input.en --compute-type float32 --compute-type int8",),
    "reproduce": ("mtkit reproduce --list",),
    "keys": ("mtkit keys training",),
    "explain": (
        'mtkit explain runs/en-de "The dog does not sleep."',
        'mtkit explain runs/en-de "The dog does not sleep." --instead "Der Hund schläft." --html why.html',
        "mtkit explain runs/en-de --src valid.en --ref valid.de",
    ),
    "report": ("mtkit report runs/en-de runs/larger --html report.html", "mtkit report runs/en-de --format latex"),
    "describe": ("mtkit describe quickstart --compare runs/en-de",),
    "plot": ("mtkit plot runs/en-de -o curves.png",),
    "nearest": ("mtkit nearest german.vec Haus Hund",),
    "doctor": ("mtkit doctor --no-speed",),
    "import": ("mtkit import opus-mt-en-de -o en-de",),
    "push": ("mtkit push exported ORGANISATION/en-de --dry-run",),
    "compress": ("mtkit compress runs/en-de --to int8 -o small",),
    "export": ("mtkit export runs/en-de --to ctranslate2 -o exported",),
    "serve": ("mtkit serve runs/en-de runs/de-en",),
}
