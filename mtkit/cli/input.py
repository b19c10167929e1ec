"""Source lines of a command: from a file, a pipe, or a terminal with a prompt and questions."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.cli.printing import print_notes
from mtkit.errors import MissingInputError, UsageError
from mtkit.text.lines import decode_lines, read_lines

if TYPE_CHECKING:
    from mtkit.translate.lines import Line
    from mtkit.translate.translation import Translation
    from mtkit.translate.translator import Translator

PROMPT = "> "


def is_interactive(file: Path) -> bool:
    """Return whether the lines of `file` (- is stdin) are typed at a terminal."""
    return str(file) == "-" and sys.stdin.isatty()


def read_input_lines(file: Path) -> Iterator[str]:
    """Lines of a file or of stdin (-); at a terminal each line is asked for with a prompt.

    Raises:
        UsageError: stdout is the same file.
        MissingInputError: no such file; the message says how a text is given, if the name has a space.
        DataError, ReadWriteError: as `read_lines`.
    """
    forbid_stdout_over_input(file)
    if " " in file.name and not file.exists():
        raise MissingInputError(f"{file}: no such file; a text is given on stdin: echo TEXT | mtkit translate MODEL")
    if is_interactive(file):
        return _prompt_lines()
    return decode_lines(sys.stdin.buffer, "stdin") if str(file) == "-" else read_lines(file)


def forbid_stdout_over_input(file: Path) -> None:
    """Refuse an input file (- is stdin) that stdout is redirected to: the command would read what it writes.

    Raises:
        UsageError: both are the same file.
    """
    try:
        stdin, stdout = os.fstat(0), os.fstat(1)
        source = stdin if str(file) == "-" else file.stat()
    except OSError:  # reported where the file is read
        return
    if stat.S_ISREG(source.st_mode) and os.path.samestat(source, stdout):
        raise UsageError(f"{file}: stdout is redirected to this input file; name another output")


def _prompt_lines() -> Iterator[str]:
    """Lines typed at the terminal; where stdout is one too, they can be edited, and Up brings earlier ones back."""
    is_editable = sys.stdout.isatty()
    if is_editable:
        with suppress(ImportError):  # the editor of the system, if Python was built with it
            import readline  # noqa: F401  `input` uses it once it is imported
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # `decode_lines` names what is no UTF-8
    while True:
        if is_editable:
            try:
                typed = (input(PROMPT) + "\n").encode(errors="surrogateescape")
            except EOFError:
                break
        else:
            sys.stderr.write(PROMPT)
            sys.stderr.flush()
            if not (typed := sys.stdin.buffer.readline()):
                break
        yield from decode_lines(io.BytesIO(typed), "terminal")
    sys.stderr.write("\n")


NUM_BEST = 5
HINT = "a line is translated; /best shows other translations of the last one, /flags what was noticed; Ctrl-D ends"


class Dialogue:
    """Takes `/best`, `/flags` and `/help` out of the lines that are typed, and answers them on stderr."""

    def __init__(self) -> None:
        self._questions: dict[str, Callable[[], list[str]]] = {
            "/best": self._best,
            "/flags": self._flags,
            "/help": lambda: [HINT],
        }
        self._translator: Translator | None = None
        self._typed: Line = ""
        self._last: Translation | None = None

    def loader(self, load: Callable[[], Translator]) -> Callable[[], Translator]:
        """`load`, whose translator also answers questions."""

        def keep() -> Translator:
            self._translator = load()
            return self._translator

        return keep

    def lines(self, lines: Iterable[Line], *, say_how: bool) -> Iterator[Line]:
        """The lines without the questions; `say_how` names these first."""
        from mtkit.translate.lines import text_of

        print_notes([HINT] if say_how else [])
        for line in lines:
            if (answer := self._questions.get(text_of(line).strip())) is not None:
                print_notes(answer())
            else:
                self._typed = line
                yield line

    def add(self, translation: Translation) -> None:
        """Keep the last translation."""
        self._last = translation

    def _best(self) -> list[str]:
        """The best translations of the last line with their scores."""
        from mtkit.translate.output import SEPARATOR

        if self._translator is None or self._last is None:
            return ["nothing was translated yet"]
        search = self._translator.search
        if search.num_hypotheses == 1:  # greedy search has no other translations
            search = search.with_plain_beam(NUM_BEST)
        translator = self._translator.varied(search=replace(search, n_best=min(NUM_BEST, search.num_hypotheses)))
        (translation,) = translator.translate([self._typed])
        return [f"{each.score:.4f}{SEPARATOR}{each.hyp}" for each in translation.nbest]

    def _flags(self) -> list[str]:
        """Flags of the last translation, described."""
        if self._last is None:
            return ["nothing was translated yet"]
        return self._last.described_flags() or ["nothing unusual"]
