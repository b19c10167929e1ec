"""Translation with several adapters of one model in one process, chosen by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from mtkit.assembly.translator import load_translators
from mtkit.assembly.translator_spec import TranslatorSpec
from mtkit.errors import DataError
from mtkit.translate.constraints import MAX_QUOTED, Line, adapter_of
from mtkit.translate.segments.windows import read_windows
from mtkit.translate.translation import Translation
from mtkit.translate.translator import Translator


class AdaptedTranslators:
    """Translators of a model and of its adapters, with the interface of one Translator.

    An adapter is merged into a copy of the matrices that it changes, so that its lines are as fast as those of the
    model. All other memory is shared: embeddings, output projection, tokenizers.
    """

    def __init__(self, base: TranslatorSpec, adapters: Mapping[str, Path]) -> None:
        """Load all translators.

        Args:
            base: of the lines that name no adapter.
            adapters: folders of adapters by name.

        Raises:
            UsageError, MissingInputError, DataError: as `load_translator`.
        """
        self.options = base.options
        options = [base.options, *(replace(base.options, adapter=folder) for folder in adapters.values())]
        translators = load_translators(**{**vars(base), "options": options})
        self._translators = dict(zip(["", *adapters], translators, strict=True))

    def __getitem__(self, name: str) -> Translator:
        """The translator of an adapter, which must be one of them; of the model for the empty name."""
        return self._translators[name]

    @property
    def compute_type(self) -> str:
        """See Translator; it is the same for all."""
        return self._translators[""].compute_type

    @property
    def can_fork(self) -> bool:
        """See Engine."""
        return all(each.can_fork for each in self._translators.values())

    def translate(self, lines: Iterable[Line], *, first: int = 1) -> Iterator[Translation]:
        """Translate each line with the adapter that it names.

        Every adapter that a window of lines names translates this window, in which the lines of the others are blank:
        blank lines take no time, and all lines keep their numbers.

        Arguments and errors as `Translator.translate`.

        Raises:
            DataError: a line names an unknown adapter; raised after the translations of all lines before.
        """
        for window, error in read_windows(self._checked(lines, first), self.options):
            names = [adapter_of(line) for line in window]
            used = list(dict.fromkeys(names))
            parts = [
                self._translators[name].translate([_line_for(name, line) for line in window], first=first)
                for name in used
            ]
            for name, translations in zip(names, zip(*parts, strict=True), strict=True):
                yield translations[used.index(name)]
            first += len(window)
            if error is not None:
                raise error

    def _checked(self, lines: Iterable[Line], first: int) -> Iterator[Line]:
        for number, line in enumerate(lines, start=first):
            if (name := adapter_of(line)) not in self._translators:
                known = ", ".join(sorted(filter(None, self._translators)))
                raise DataError(f"line {number}: adapter {name[:MAX_QUOTED]!r}: unknown; the adapters are {known}")
            yield line


def _line_for(name: str, line: Line) -> Line:
    """The line as the translator of an adapter reads it: blank if it names another one."""
    if adapter_of(line) != name:
        return ""
    return line if isinstance(line, str) else replace(line, adapter="")
