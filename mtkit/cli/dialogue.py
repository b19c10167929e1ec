"""Questions about the last translation, typed at a terminal between lines to translate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from mtkit.cli.printing import print_notes
from mtkit.translate.lines import Line, text_of
from mtkit.translate.output import SEPARATOR
from mtkit.translate.progress import DESCRIPTIONS
from mtkit.translate.translation import Translation
from mtkit.translate.translator import Translator

NUM_BEST = 5
HINT = "a line is translated; /best shows other translations of the last one, /flags what was noticed; Ctrl-D ends"


class Dialogue:
    """Takes `/best` and `/flags` out of the lines that are typed, and answers them on stderr."""

    def __init__(self) -> None:
        self._questions = {"/best": self._best, "/flags": self._flags}
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
        return [f"{flag}: {DESCRIPTIONS[flag]}" for flag in self._last.flags] or ["nothing unusual"]
