"""Options for the output: its form, its file, and files beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.translate.output import Destination
    from mtkit.translate.translation import Translation

OutputFile = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to FILE instead of stdout.")
]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="Write a JSON object per line: scores, tokens, alignment.")]
Alignments = Annotated[
    Path | None,
    typer.Option(
        "--alignments",
        metavar="FILE",
        help="Write the word alignment of each line's best translation to FILE, one line per line: 0-0 1-2 (Pharaoh).",
    ),
]
Flags = Annotated[
    Path | None,
    typer.Option(
        "--flags",
        metavar="FILE",
        help="Write a JSON object to FILE for each line that was split, ran into a loop, reached the maximum length or "
        "has unknown characters.",
    ),
]
FlushEvery = Annotated[
    int | None, typer.Option("--flush-every", min=1, metavar="N", help="Write translations after every N lines.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="With -o: resume FILE.part, of the same text, model and options.")
]

Quiet = Annotated[bool, typer.Option("--quiet", help="Write nothing but errors to stderr: no progress, no notes.")]

NBestForm = Literal["mtkit", "moses"]
NBestFormat = Annotated[
    NBestForm | None,
    typer.Option(
        "--n-best-format", help="mtkit (default), or moses: LINE from 0 ||| TRANSLATION ||| LogProb= X ||| SCORE."
    ),
]


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The options of a command line for the output."""

    file: Path | None = None
    jsonl: bool = False
    n_best: NBestForm | None = None
    alignments: Path | None = None
    flags: Path | None = None
    resume: bool = False
    quiet: bool = False

    @property
    def form(self) -> str:
        """Form of the output: text, n-best or jsonl, whose lines contain the n best translations."""
        return "jsonl" if self.jsonl else "text" if self.n_best is None else f"n-best of {self.n_best}"

    @property
    def needs_scores(self) -> bool:
        """True if scores or alignments are written."""
        return self.form != "text" or self.alignments is not None

    @property
    def files(self) -> dict[str, Path]:
        """The files that are written, by option."""
        named = {"-o": self.file, "--alignments": self.alignments, "--flags": self.flags}
        return {option: path for option, path in named.items() if path is not None}

    def check(self, inputs: Iterable[Path]) -> None:
        """Refuse options that would lose text.

        Raises:
            UsageError: --resume without a file, an output that is an input, or two outputs that are one file.
        """
        from mtkit.cli.options import forbid_overwriting_input
        from mtkit.io.part_file import part_paths
        from mtkit.text.lines import COMPRESSION_SUFFIXES

        if self.resume and self.file is None:
            raise UsageError("translate: --resume continues FILE.part and needs -o FILE")
        for option, path in self.files.items():
            if str(path) == "-":
                raise UsageError(f"translate: {option} -: name a file; without -o the translations go to stdout")
            if path.suffix in COMPRESSION_SUFFIXES:
                raise UsageError(f"translate: {option} {path}: is written as plain text; omit {path.suffix}")
        inputs = [path for path in inputs if str(path) != "-"]
        used: dict[Path, str] = {}
        for option, path in self.files.items():
            for each in [path.resolve(), *part_paths(path)]:
                if each in used and not path.is_char_device():
                    raise UsageError(f"translate: {option} {path} and {used[each]} are one file; name another FILE")
                used[each] = f"{option} {path}"
            forbid_overwriting_input("translate", path, inputs, option=option)
            for source in inputs:
                if source.resolve() in part_paths(path):
                    raise UsageError(
                        f"translate: {source} is where unfinished lines of {option} {path} are kept; name another FILE"
                    )

    def destinations(self) -> Iterator[Destination]:
        """Places of translations, alignments and flags, the main output first."""
        from mtkit.translate import output

        texts = {
            "jsonl": output.as_json,
            "text": output.as_text,
            "n-best of mtkit": output.as_n_best,
            "n-best of moses": output.as_moses_n_best,
        }
        yield output.Destination(self.file, texts[self.form])
        if self.alignments is not None:
            yield output.Destination(self.alignments, output.as_alignment)
        if self.flags is not None:
            yield output.Destination(self.flags, output.as_flag_record)

    @contextmanager
    def reports(self, source: Path) -> Iterator[list[Callable[[Translation], None]]]:
        """Functions that report progress: one with -o FILE, none to stdout, to a device, or with --quiet.

        Args:
            source: file of the source lines, or - for stdin.
        """
        from mtkit.cli.streams import is_terminal, terminal
        from mtkit.text.lines import count_lines
        from mtkit.translate.output import is_stream
        from mtkit.translate.progress import TranslationProgress

        if self.file is None or is_stream(self.file) or self.quiet:
            yield []
            return

        def count() -> int | None:
            return count_lines(source) if source.is_file() else None

        with TranslationProgress(terminal(), is_terminal=is_terminal(), count_lines=count) as progress:
            yield [progress.add]
