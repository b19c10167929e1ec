"""Options for the lines to translate: where they come from, and constraints on their translations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.translate.lines import Line

SourceFile = Annotated[Path, typer.Argument(metavar="FILE|-", help="Source text; - is stdin.")]
JsonlInput = Annotated[
    bool,
    typer.Option(
        "--jsonl-input",
        help='Read a JSON object per line: "text", perhaps "prefix", "include", "exclude" and "adapter". Other fields '
        "are copied to the output, which is --jsonl.",
    ),
]
Constraints = Annotated[
    Path | None,
    typer.Option(
        "--constraints", metavar="FILE", help="JSON lines with prefix, include and exclude of each source line."
    ),
]
SplitSentences = Annotated[
    bool | None,
    typer.Option(
        "--split-sentences/--no-split-sentences",
        help="Translate every sentence of a line by itself; a line stays a line. Default: in models of single "
        "sentences, lines without constraints.",
    ),
]
GlossaryFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--glossary",
        metavar="FILE",
        help="Terms and their translations: .csv or .tsv (term, forms separated by |), .tbx, or .txt with terms that "
        "stay as they are (repeatable).",
    ),
]
Restore = Annotated[
    bool | None,
    typer.Option(
        "--restore/--no-restore",
        help="Put URLs, numbers, placeholders and names that a translation lacks in their places. Default: for models "
        "with a normaliser.",
    ),
]
TargetPrefix = Annotated[
    str | None, typer.Option("--target-prefix", metavar="TEXT", help="Begin every translation with TEXT.")
]


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The options of a command line for the lines to translate."""

    file: Path
    jsonl_input: bool = False
    constraints: Path | None = None
    target_prefix: str | None = None
    quiet: bool = False

    @property
    def files(self) -> list[Path]:
        """The files that are read."""
        return [self.file, *([] if self.constraints is None else [self.constraints])]

    def lines(self) -> Iterator[Line]:
        """The lines to translate.

        Raises:
            UsageError: options contradict each other.
            DataError, MissingInputError, ReadWriteError: as `read_lines`, `parse_json_lines` and `with_constraints`.
        """
        from mtkit.cli.input import read_input_lines
        from mtkit.cli.printing import print_notes
        from mtkit.translate.lines import json_note, parse_json_lines, with_constraints, with_prefix

        if self.jsonl_input and self.constraints is not None:
            raise UsageError(
                "translate: with --jsonl-input, prefix, include and exclude are fields of each line; omit --constraints"
            )
        if self.target_prefix and not self.target_prefix.strip():
            raise UsageError("translate: --target-prefix: blank; omit it")
        name = "stdin" if str(self.file) == "-" else str(self.file)
        texts = read_input_lines(self.file)
        if not self.jsonl_input and not self.quiet:
            texts = json_note(texts, name, report=lambda note: print_notes([note]))
        lines: Iterator[Line] = texts
        if self.jsonl_input:
            lines = parse_json_lines(texts, name)
        elif self.constraints is not None:
            lines = with_constraints(texts, self.constraints)
        return with_prefix(lines, self.target_prefix) if self.target_prefix else lines
