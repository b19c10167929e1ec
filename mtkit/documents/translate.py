"""Translation of a document: its text units go through a translator and are replaced, in bounded memory."""

from __future__ import annotations

import io
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from mtkit.documents.choose import root_of
from mtkit.documents.formats.docx import PARTS, copy_docx, open_docx
from mtkit.documents.source import DocumentSource
from mtkit.documents.unit import DocumentFormat, TextUnit, apply_edits, has_words, place_in_order
from mtkit.errors import DataError
from mtkit.io.counts import count_of
from mtkit.io.files import require_regular_file, translate_read_errors, write_atomically
from mtkit.text.structure.marked import Marked, join_marked, place_marks


class LineTranslation(Protocol):
    """The translation of a line, with its word alignment and flags."""

    @property
    def hyp(self) -> str:
        """The translation."""
        ...

    @property
    def alignment(self) -> Sequence[tuple[int, int]]:
        """Pairs (source word, target word)."""
        ...

    @property
    def flags(self) -> Sequence[str]:
        """Names of what was noticed, such as a loop."""
        ...


Translate = Callable[[Iterable[str]], Iterator[LineTranslation]]


@dataclass
class DocumentReport:
    """Counts of a translated document.

    Attributes:
        units: texts that were translated.
        guessed: those whose inline marks have places that the alignment does not show.
        first: place of the first of these, FILE:LINE.
        flagged: texts with a flag.
        flags: texts with each flag.
        first_flagged: place of the first text with each flag.
    """

    units: int = 0
    guessed: int = 0
    first: str | None = None
    flagged: int = 0
    flags: Counter[str] = field(default_factory=Counter)
    first_flagged: dict[str, str] = field(default_factory=dict)

    def sentence(self) -> str:
        """One line about the counts."""
        sentence = f"{count_of(self.units, 'text')} translated"
        if not self.guessed:
            return sentence
        return f"{sentence}; check the tags of {self.guessed:,}, whose places are guessed (first: {self.first})"

    def add(self, place: Callable[[], str], *, is_certain: bool, flags: Collection[str]) -> None:
        """Count a text; `place` returns FILE:LINE, which takes time."""
        self.units += 1
        if not is_certain:
            self.guessed += 1
            self.first = self.first or place()
        self.flagged += bool(flags)
        for flag in flags:
            self.flags[flag] += 1
            if flag not in self.first_flagged:
                self.first_flagged[flag] = place()


def translate_document(path: Path, output: Path, form: DocumentFormat, translate: Translate) -> DocumentReport:
    """Translate a document into another file, which is complete or absent.

    Args:
        path: the document; it is only read.
        output: the file to write.
        form: format of the document.
        translate: one translation for each line, in order.

    Raises:
        DataError: the document is not of its format, or cannot be decoded.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    report = DocumentReport()
    require_regular_file(path)
    with translate_read_errors(path):
        if root_of(path) == "document":
            _translate_docx(path, output, form, translate, report)
        else:
            with path.open("rb") as file, write_atomically(output) as temporary, temporary.open("wb") as target:
                _translate_stream(DocumentSource(file, str(path), form, root_of(path)), target, translate, report)
    return report


def _translate_docx(
    path: Path, output: Path, form: DocumentFormat, translate: Translate, report: DocumentReport
) -> None:
    with open_docx(path) as archive, write_atomically(output) as temporary:
        texts = {}
        for name in filter(PARTS.fullmatch, archive.namelist()):
            translated = io.BytesIO()
            with archive.open(name) as part:
                source = DocumentSource(
                    part, f"{path}: {name}", form, "document" if name == "word/document.xml" else None
                )
                _translate_stream(source, translated, translate, report)
            texts[name] = translated.getvalue()
        copy_docx(archive, temporary, texts)


@dataclass
class PendingStretch:
    """A stretch whose lines are being translated.

    Attributes:
        line: number of its first line.
        parts: lines of each unit.
        lines: those with words, which are translated.
        translations: of these so far.
    """

    line: int
    stretch: str
    units: list[TextUnit]
    translations: list[LineTranslation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = [_split_lines(unit.source) for unit in self.units]
        self.lines = [part.text.strip() for parts in self.parts for part in parts if has_words(part.text)]

    def place(self, name: str, unit: TextUnit) -> str:
        """FILE:LINE of a unit in a file of this name."""
        return f"{name}:{self.line + self.stretch.count(chr(10), 0, unit.start)}"


def _translate_stream(source: DocumentSource, target: BinaryIO, translate: Translate, report: DocumentReport) -> None:
    """Translate a file or a part of an archive."""
    queue: deque[PendingStretch] = deque()

    def write(text: str) -> None:
        errors = "xmlcharrefreplace" if source.form.has_references else "strict"
        try:
            target.write(text.encode(source.encoding, errors))
        except UnicodeEncodeError as error:
            raise DataError(
                f"{source.name}: the encoding {source.encoding} lacks the character "
                f"{error.object[error.start]!a} of a translation; convert the document to UTF-8"
            ) from error

    def lines() -> Iterator[str]:
        for line, stretch, units in source.read(source.form.units):
            pending = PendingStretch(line, stretch, units)
            if not pending.lines and not queue:
                write(stretch)
                continue
            queue.append(pending)
            yield from pending.lines

    for translation in translate(lines()):
        _next_open(queue, write, source.name, report).translations.append(translation)
    while queue:
        write(finish_stretch(queue.popleft(), source.name, report))


def _next_open(
    queue: deque[PendingStretch], write: Callable[[str], None], name: str, report: DocumentReport
) -> PendingStretch:
    """The first stretch that lacks translations, after all before it are written."""
    while len(queue[0].translations) == len(queue[0].lines):
        write(finish_stretch(queue.popleft(), name, report))
    return queue[0]


def _split_lines(marked: Marked) -> list[Marked]:
    """The lines of a text."""
    ends = [i + 1 for i, char in enumerate(marked.text) if char == "\n" and i + 1 < len(marked.text)]
    return marked.split([*ends, len(marked.text)]) if ends else [marked]


def finish_stretch(pending: PendingStretch, name: str, report: DocumentReport) -> str:
    """The stretch with its translations, which are counted; `name` is that of its file."""
    translations = iter(pending.translations)
    edits: list[tuple[int, int, str]] = []
    for unit, parts in zip(pending.units, pending.parts, strict=True):
        targets: list[Marked] = []
        certain, flags = True, set[str]()
        for part in parts:
            if not has_words(part.text):
                targets.append(part)
                continue
            translation = next(translations)
            placed, is_certain = _place(unit, part, translation)
            targets.append(placed)
            certain &= is_certain
            flags.update(translation.flags)
        report.add(partial(pending.place, name, unit), is_certain=certain, flags=flags)
        edits += unit.edits(_joined(unit, parts, targets))
    return apply_edits(pending.stretch, edits)


def _place(unit: TextUnit, part: Marked, translation: LineTranslation) -> tuple[Marked, bool]:
    """The translation of a line with its marks and outer white space."""
    leading = part.text[: len(part.text) - len(part.text.lstrip())]
    trailing = part.text[len(part.text.rstrip()) :]
    target = f"{leading}{translation.hyp}{trailing}"
    if not part.marks:
        return Marked(target), True
    if target == part.text:
        return part, True
    placed, certain = place_marks(part, target, translation.alignment)
    order = [(mark.role, mark.name) for mark in part.marks]
    if unit.ordered and [(mark.role, mark.name) for mark in placed.marks] != order:
        return place_in_order(part, target), False
    return placed, certain


def _joined(unit: TextUnit, parts: Sequence[Marked], targets: Sequence[Marked]) -> Marked:
    """The lines of a unit as one text; marks whose pairs would cross are placed in their order instead."""
    try:
        return join_marked(targets)
    except ValueError:
        return join_marked([place_in_order(part, target.text) for part, target in zip(parts, targets, strict=True)])
