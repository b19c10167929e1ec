"""Books in the EPUB format: its pages, which are XHTML, and its table of contents."""

from __future__ import annotations

import posixpath
import zipfile
from pathlib import Path
from urllib.parse import unquote

from mtkit.documents.archive import ZippedXml, member_elements
from mtkit.documents.formats.html import Html

_CONTAINER = "META-INF/container.xml"
_PAGES = ("application/xhtml+xml", "application/x-dtbncx+xml")  # media types of members with text


class Epub(ZippedXml, Html):
    """The pages that the manifests of a book name, and tables of contents. https://www.w3.org/TR/epub-33/

    Metadata such as the title and the language of the book stay.
    """

    suffixes = (".epub",)
    is_xml = False  # pages with entities of HTML are read, as by readers of books
    title = "book in the EPUB format"
    stretches = Html.stretches  # CDATA sections of pages are of scripts and styles

    def parts(self, path: Path, archive: zipfile.ZipFile) -> dict[str, str | None]:
        """The pages in the order of the manifests."""
        packages = [
            attributes["full-path"]
            for name, attributes in member_elements(path, archive, _CONTAINER)
            if name == "rootfile" and "full-path" in attributes
        ]
        pages: dict[str, str | None] = {}
        for package in packages:
            for name, attributes in member_elements(path, archive, package):
                if name == "item" and attributes.get("media-type") in _PAGES:
                    address = unquote(attributes.get("href", ""))
                    member = posixpath.normpath(posixpath.join(posixpath.dirname(package), address))
                    pages |= {member: None} if member in archive.namelist() else {}
        if not pages:
            raise self.no_document(path, "a page")
        return pages
