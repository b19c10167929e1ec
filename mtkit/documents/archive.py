"""Documents that are zip archives of XML: their checks, and their members with text; all other members are copied."""

from __future__ import annotations

import itertools
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar

from mtkit.documents.format import DocumentFormat
from mtkit.documents.markup import XmlCheck, XmlError, escape_xml
from mtkit.documents.reading import CHUNK
from mtkit.errors import DataError

MAX_PART = 1 << 26  # bytes of a part without compression
MAX_SIZE = 1 << 30  # of all members
_TOO_LARGE = f"content of more than {MAX_PART >> 20} MiB of text or {MAX_SIZE >> 30} GiB in all; is this a zip bomb?"
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_CONTENT_TYPES = "[Content_Types].xml"


class ZippedXml(DocumentFormat):
    """A format whose files are zip archives.

    Attributes:
        title: of a file in messages, such as "Word document".
    """

    is_archive = is_xml = has_references = True
    title: ClassVar[str]

    def parts(self, path: Path, archive: zipfile.ZipFile) -> dict[str, str | None]:
        """The members with text in order, with the name of their outermost element if that is checked.

        Raises:
            DataError: it is no archive of this format.
        """
        raise NotImplementedError

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """A part, in which references replace CDATA sections."""
        for stretch in super().stretches(chunks):
            yield _CDATA.sub(lambda match: escape_xml(match[1]), stretch)

    @contextmanager
    def open_archive(self, path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, str | None]]]:
        """Open a document.

        Yields:
            The archive, and its `parts`.

        Raises:
            DataError: it is none of this format, is damaged or encrypted, or its content is too large.
        """
        try:
            archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError, ValueError) as error:
            suffix = self.suffixes[0]
            raise DataError(f"{path}: not a {self.title}, which is a zip archive; save it as {suffix}") from error
        try:
            with archive:
                infos = {info.filename: info for info in archive.infolist()}
                reason = None
                if any(info.flag_bits & 1 for info in infos.values()):
                    reason = "encrypted; save it without a password"
                elif len(infos) < len(archive.infolist()):
                    reason = "two members of the archive have the same name; save the document again"
                elif sum(info.file_size for info in infos.values()) > MAX_SIZE:
                    reason = _TOO_LARGE
                if reason is not None:
                    raise DataError(f"{path}: {reason}")
                parts = self.parts(path, archive)
                if any(infos[name].file_size > MAX_PART for name in parts):
                    raise DataError(f"{path}: {_TOO_LARGE}")
                yield archive, parts
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise DataError(f"{path}: the archive is damaged: {error}") from error

    def no_document(self, path: Path, name: str) -> DataError:
        """The error of an archive that lacks a member."""
        return DataError(f"{path}: a zip archive without {name}, so no {self.title}; is the name right?")


def member_elements(path: Path, archive: zipfile.ZipFile, name: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Name and attributes of each element inside the outermost one of a member; none if there is no such member.

    Raises:
        DataError: the member is too large or not well-formed.
    """
    if name not in archive.namelist():
        return
    if archive.getinfo(name).file_size > MAX_PART:
        raise DataError(f"{path}: {_TOO_LARGE}")
    elements: list[tuple[str, Mapping[str, str]]] = []  # of a chunk
    check = XmlCheck(None, lambda element, attributes: elements.append((element.rpartition(":")[2], attributes)))
    try:
        with archive.open(name) as member:
            for chunk in itertools.chain(iter(partial(member.read, CHUNK), b""), [b""]):
                check.feed(chunk, is_last=not chunk)
                yield from elements
                elements.clear()
    except XmlError as error:
        raise DataError(f"{path}: {name}:{error.line}: {error}") from error


def related_members(path: Path, archive: zipfile.ZipFile, part: str, types: tuple[str, ...]) -> Iterator[str]:
    """The members that a part, or with an empty name the archive, has relationships of these types to.

    Relationships are those of the Open Packaging Conventions (ECMA-376, part 2). Errors as `member_elements`.
    """
    folder, name = posixpath.split(part)
    names = {each.lower(): each for each in archive.namelist()}  # which are compared without case
    source = posixpath.join(folder, "_rels", f"{name}.rels").lower()
    for _, attributes in member_elements(path, archive, names.get(source, source)):
        if attributes.get("Type", "").endswith(types) and attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, attributes.get("Target", ""))).lstrip("/")
            yield names.get(target.lower(), target)


def typed_members(path: Path, archive: zipfile.ZipFile, types: tuple[str, ...]) -> list[str]:
    """The members whose declared content types end with one of these, in order; errors as `member_elements`."""
    declared = {
        attributes.get("PartName", "").lstrip("/").lower()
        for name, attributes in member_elements(path, archive, _CONTENT_TYPES)
        if name == "Override" and attributes.get("ContentType", "").endswith(types)
    }
    return [name for name in archive.namelist() if name.lower() in declared]
