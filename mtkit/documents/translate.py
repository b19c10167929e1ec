"""Translation of a document: its text units go through a translator and are replaced, in bounded memory."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Protocol

from mtkit.display import count_of
from mtkit.documents.format import DocumentFormat
from mtkit.documents.message import Message, MessageError, read_message
from mtkit.documents.reading import CHUNK, DocumentSource, Report, ignore
from mtkit.documents.unit import TextUnit, place_in_order
from mtkit.errors import DataError
from mtkit.io.files import require_regular_file, translate_read_errors, write_atomically
from mtkit.text.marked import Marked, join_marked, place_marks
from mtkit.text.normalise import speaker_dash
from mtkit.text.spans import needs_translation


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


_NO_TEXT = re.compile(
    r"(?is)<(script|style)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)"
    # of spreadsheets and charts
    r"|<((?:\w+:)?(?:f|v|formatCode|(?:odd|even|first)(?:Header|Footer)))(?=[\s>])[^<>]*(?<!/)>[^<]*</\2\s*>"
    r"|<[^<>]*>?|&\w+;"
)
Translate = Callable[[Iterable[str]], Iterator[LineTranslation]]


@dataclass
class DocumentReport:
    """Counts of a translated document.

    Attributes:
        units: texts that were translated.
        copied: texts that are nothing but numbers, addresses, placeholders and the like.
        left: texts that are left as they are for each reason, such as "translated already".
        guessed: those whose inline marks have places that the alignment does not show.
        first: place of the first of these, FILE:LINE.
        flagged: texts with a flag.
        flags: texts with each flag.
        first_flagged: place of the first text with each flag.
        has_letters: before the first text there were letters outside of tags.
    """

    units: int = 0
    copied: int = 0
    left: Counter[str] = field(default_factory=Counter)
    guessed: int = 0
    first: str | None = None
    flagged: int = 0
    flags: Counter[str] = field(default_factory=Counter)
    first_flagged: dict[str, str] = field(default_factory=dict)
    has_letters: bool = False

    def sentence(self) -> str:
        """One line about the counts."""
        sentence = f"{count_of(self.units, 'text')} translated"
        if self.copied:
            sentence += f", {self.copied:,} without words copied"
        sentence += "".join(f"; {count:,} left: {reason}" for reason, count in self.left.items())
        if self.is_empty:
            sentence += "; there is none in a place that is translated"
        if not self.guessed:
            return sentence
        return f"{sentence}; check the tags of {self.guessed:,}, whose places are guessed (first: {self.first})"

    @property
    def is_empty(self) -> bool:
        """True if there was no text."""
        return not (self.units or self.copied or self.left)

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


def translate_document(
    path: Path, output: Path, form: DocumentFormat, translate: Translate, notify: Report = ignore
) -> DocumentReport:
    """Translate a document into another file, which is complete or absent.

    Args:
        path: the document; it is only read.
        output: the file to write.
        form: format of the document.
        translate: one translation for each line, in order.
        notify: receives the sentence that an encoding was guessed.

    Raises:
        DataError: the document is not of its format, or cannot be decoded.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    report = DocumentReport()
    require_regular_file(path)
    with translate_read_errors(path), ExitStack() as stack:
        source = path
        if form.options.attributes:  # before the texts, since tags are parts of these
            source = Path(stack.enter_context(TemporaryDirectory(prefix="mtkit-"))) / path.name
            _translate_file(path, source, path, form, translate, report, notify)
            form = type(form)(replace(form.options, attributes=False))
        _translate_file(source, output, path, form, translate, report, notify)
    return report


def _translate_file(
    source: Path,
    output: Path,
    path: Path,
    form: DocumentFormat,
    translate: Translate,
    report: DocumentReport,
    notify: Report,
) -> None:
    """Translate a file, which is the document at `path` or made of it."""
    if form.is_archive:
        _translate_archive(source, output, path, form, translate, report)
        return
    with source.open("rb") as file, write_atomically(output) as temporary, temporary.open("wb") as target:
        _translate_stream(DocumentSource(file, str(path), form, form.root, notify), target, translate, report)
        _check_texts(path, form, report)


def _check_texts(path: Path, form: DocumentFormat, report: DocumentReport) -> None:
    if not form.options.attributes and report.has_letters and report.is_empty:
        raise DataError(f"{path}: has letters, but no text in a place that is translated; is it of another kind?")


def _translate_archive(
    source: Path, output: Path, path: Path, form: DocumentFormat, translate: Translate, report: DocumentReport
) -> None:
    """Translate the parts of a zip archive that have text, and copy its other members, in bounded memory."""
    with (
        form.open_archive(source) as (archive, parts),
        write_atomically(output) as temporary,
        zipfile.ZipFile(temporary, "w") as copied,
    ):
        texts = {}
        for name, root in parts.items():
            translated = io.BytesIO()
            with archive.open(name) as part:
                _translate_stream(DocumentSource(part, f"{path}: {name}", form, root), translated, translate, report)
            texts[name] = translated.getvalue()
        _check_texts(path, form, report)
        copied.comment = archive.comment
        for info in archive.infolist():
            with copied.open(copy(info), "w") as target, archive.open(info) as original:
                text = io.BytesIO(texts[info.filename]) if info.filename in texts else original
                shutil.copyfileobj(text, target, CHUNK)


@dataclass
class PendingStretch:
    """A stretch whose lines are being translated.

    Attributes:
        line: number of its first line.
        messages: the texts of each unit; None: it is left as it is.
        lines: those with words, which are translated.
        translations: of these so far.
    """

    line: int
    stretch: str
    units: list[TextUnit]
    translations: list[LineTranslation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.messages = [self._message(unit) for unit in self.units]
        texts = [text for message in self.messages if message is not None for text in message.messages()]
        for text in texts:
            marked = text.text
            ends = [i + 1 for i, char in enumerate(marked.text) if char == "\n" and i + 1 < len(marked.text)]
            lines = marked.split([*ends, len(marked.text)]) if ends else [marked]
            text.lines = [(line, needs_translation(line.text)) for line in lines]
        translated = [line.text for text in texts for line, is_translated in text.lines if is_translated]
        self.lines = [text[len(_lead(text)) :].rstrip() for text in translated]

    @staticmethod
    def _message(unit: TextUnit) -> Message | None:
        try:
            return None if unit.left else read_message(unit.source)
        except MessageError:
            return None

    def place(self, name: str, unit: TextUnit) -> str:
        """FILE:LINE of a unit in a file of this name."""
        return f"{name}:{self.line + self.stretch.count(chr(10), 0, unit.start)}"


def _translate_stream(source: DocumentSource, target: BinaryIO, translate: Translate, report: DocumentReport) -> None:
    """Translate a file or a part of an archive."""
    queue: deque[PendingStretch] = deque()

    def write(text: str) -> None:
        errors = "xmlcharrefreplace" if source.form.has_references else "strict"
        try:
            target.write(text.encode(source.form.encoding, errors))
        except UnicodeEncodeError as error:
            raise DataError(
                f"{source.name}: the encoding {source.form.encoding} lacks the character "
                f"{error.object[error.start]!a} of a translation; convert the document to UTF-8"
            ) from error

    def lines() -> Iterator[str]:
        for line, stretch, units in source.read(source.form.units):
            if not units and source.form.has_references and report.is_empty and not report.has_letters:
                report.has_letters = any(map(str.isalpha, _NO_TEXT.sub("", stretch)))
            pending = PendingStretch(line, stretch, units)
            if not pending.lines and not queue:
                write(finish_stretch(pending, source.name, report))
                continue
            queue.append(pending)
            yield from pending.lines

    for translation in translate(lines()):
        while len(queue[0].translations) == len(queue[0].lines):
            write(finish_stretch(queue.popleft(), source.name, report))
        queue[0].translations.append(translation)
    while queue:
        write(finish_stretch(queue.popleft(), source.name, report))


def finish_stretch(pending: PendingStretch, name: str, report: DocumentReport) -> str:
    """The stretch with its translations, which are counted; `name` is that of its file."""
    translations = iter(pending.translations)
    edits: list[tuple[int, int, str]] = []  # which do not overlap
    for unit, message in zip(pending.units, pending.messages, strict=True):
        if unit.left:
            report.left[unit.left] += 1
            continue
        translated = None if message is None else _translated(unit, message, translations)
        # what cannot be read as a message of ICU, or written as one again, is left as it is
        target, certain, flags = translated or (unit.source, True, {"message"})
        if flags or message is None or any(is_translated for m in message.messages() for _, is_translated in m.lines):
            report.add(partial(pending.place, name, unit), is_certain=certain, flags=flags)
        elif unit.source.text:
            report.copied += 1
        edits += unit.edits(target)
    pieces, position = [], 0
    for start, end, text in sorted(edits, key=lambda edit: edit[:2]):
        pieces += [pending.stretch[position:start], text]
        position = end
    return "".join([*pieces, pending.stretch[position:]])


def _translated(
    unit: TextUnit, message: Message, translations: Iterator[LineTranslation]
) -> tuple[Marked, bool, set[str]] | None:
    """The translation of a unit, whether all marks have their places, and its flags; None: marks of branches cross."""
    targets: list[Marked] = []
    certain, flags = True, set[str]()
    for text in message.messages():
        placed: list[Marked] = []
        for line, is_translated in text.lines:
            if not is_translated:
                placed.append(line)
                continue
            translation = next(translations)
            target, is_certain = _place(unit, line, translation)
            placed.append(target)
            certain &= is_certain
            flags.update(translation.flags)
        try:
            targets.append(join_marked(placed))
        except ValueError:  # pairs of marks would cross: they are placed in their order instead
            lines = [line for line, _ in text.lines]
            in_order = [place_in_order(line, target.text) for line, target in zip(lines, placed, strict=True)]
            targets.append(join_marked(in_order))
    try:
        return message.written(iter(targets)), certain, flags
    except ValueError:
        return None


def _lead(line: str) -> str:
    """The white space before a line, and the dash of a speaker, which stay."""
    return speaker_dash(line) or line[: len(line) - len(line.lstrip())]


def _place(unit: TextUnit, line: Marked, translation: LineTranslation) -> tuple[Marked, bool]:
    """The translation of a line with its marks, and with what is around it."""
    lead, trailing = _lead(line.text), line.text[len(line.text.rstrip()) :]
    target = f"{lead}{translation.hyp}{trailing}"
    if not line.marks:
        return Marked(target), True
    if target == line.text:
        return line, True
    has_dash = len(lead.split()) if lead[-1:].isspace() else 0  # a word of its own
    links = [(s + has_dash, t + has_dash) for s, t in translation.alignment]
    placed, certain = place_marks(line, target, links)
    order = [(mark.role, mark.name) for mark in line.marks]
    if unit.ordered and [(mark.role, mark.name) for mark in placed.marks] != order:
        return place_marks(line, target, links, in_order=True)[0], False
    return placed, certain
