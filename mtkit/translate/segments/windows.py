"""Windows of lines: the lines that are read before their translations are returned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from mtkit.errors import MtkitError
from mtkit.translate.constraints import Line, LineRequest, text_of
from mtkit.translate.segments.long_lines import MAX_CHUNK
from mtkit.translate.translation import TranslationOptions

L = TypeVar("L", bound=Line | LineRequest)


def read_windows(lines: Iterable[L], options: TranslationOptions) -> Iterator[tuple[list[L], MtkitError | None]]:
    """Read lines in windows, to be sorted by length; the last one comes with the error that ended the reading.

    A line of more than MAX_CHUNK characters is a window of its own, so that the lines before it need not wait for it.
    """
    max_lines = min(options.window, options.flush_every or options.window)
    window: list[L] = []
    characters = 0
    try:
        for line in lines:
            length = len(text_of(line))
            if length > MAX_CHUNK and window:
                yield window, None
                window, characters = [], 0
            window.append(line)
            characters += length
            if len(window) == max_lines or characters >= options.window_characters or length > MAX_CHUNK:
                yield window, None
                window, characters = [], 0
    except MtkitError as error:
        yield window, error
        return
    if window:
        yield window, None
