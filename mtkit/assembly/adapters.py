"""Translation with several adapters of one model in one process, chosen by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mtkit.assembly.translator_spec import TranslatorSpec
from mtkit.errors import UsageError
from mtkit.translate.translator import Translator


class AdaptedTranslators:
    """Translators of a model and of its adapters; each is loaded when a line first asks for it, and then kept.

    An adapter is merged into a copy of the matrices that it changes, so that its lines are as fast as those of the
    model; each adapter takes the memory of a model.

    Args:
        base: of the model without adapter.
        adapters: folders of adapters by name.
    """

    def __init__(self, base: TranslatorSpec, adapters: Mapping[str, Path]) -> None:
        self._base = base
        self._adapters = adapters
        self._loaded: dict[str | None, Translator] = {}

    def translator(self, name: str | None) -> Translator:
        """The translator of an adapter; None: of the model without adapter.

        Raises:
            UsageError: there is no adapter of this name.
            MissingInputError, DataError: as `load_translator`.
        """
        if name is not None and name not in self._adapters:
            known = f"the adapters are {', '.join(sorted(self._adapters))}" if self._adapters else "there are none"
            raise UsageError(f"adapter {name!r}: unknown; {known}")
        if name not in self._loaded:
            folder = None if name is None else self._adapters[name]
            spec = replace(self._base, options=replace(self._base.options, adapter=folder))
            self._loaded[name] = spec.load()
        return self._loaded[name]

    def translate_lines(self, lines: Sequence[str], names: Sequence[str | None]) -> list[str]:
        """Translate each line with the adapter of its name, None without one; in order.

        Raises:
            ValueError: there are not as many names as lines.
            UsageError, MissingInputError, DataError: as `translator`; nothing is translated then.
        """
        if len(lines) != len(names):
            raise ValueError(f"{len(lines)} lines and {len(names)} names of adapters")
        hyps = [""] * len(lines)
        translators = {name: self.translator(name) for name in dict.fromkeys(names)}
        for name, translator in translators.items():
            chosen = [index for index, each in enumerate(names) if each == name]
            for index, hyp in zip(chosen, translator.translate_lines([lines[i] for i in chosen]), strict=True):
                hyps[index] = hyp
        return hyps
