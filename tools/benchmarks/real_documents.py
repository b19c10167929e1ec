"""Real documents of each format: files of a machine, translated by a stand-in, must change in their text alone.

    python tools/benchmarks/real_documents.py FOLDER... [--files 50]

Of the files below the folders whose names end like those of documents, the same ones in every run are taken: at most a
number of each format, of up to 512 KiB (archives 4 MiB), no two with the same content. Each is translated twice: into
itself, which must give the same bytes for the formats whose text is replaced (the members of archives), and into
capitals, which a second reader compares (tests/unit/documents/test_second_readers.py: html.parser, markdown-it-py,
pysubs2, polib and `msgfmt -c`, lxml and `xmllint`, csv, json; python-docx, python-pptx, openpyxl and pyicumessageformat
here). A file that the second reader does not read as it is, or that is refused, is counted as that; a difference is
said if the command would name a place that is a guess. Texts that are nothing but URLs, placeholders, code and the like
are translated here as well, so that the second reader finds all text in capitals; stderr counts them, and lists those
that have two words beside each other.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import posixpath
import re
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).parents[2]))

import mtkit.documents.translate
from mtkit.documents.format import document_suffix
from mtkit.errors import MtkitError
from tests.unit.documents.generated import members, same, translate
from tests.unit.documents.test_second_readers import CHECKS, ZIPPED, check_html, check_md, squeezed

SUFFIXES = {"xliff": "xlf", "htm": "html", "markdown": "md", "pot": "po", "ssa": "ass", "odp": "odt"}
SUFFIXES |= dict.fromkeys(("arrays.xml", "plurals.xml"), "strings.xml")
ADDS_TEXT = ("po", "xlf", "tmx", "arb")
MAX_BYTES = 512 << 10
OUTCOMES = (
    "as it should be",
    "refused",
    "no second reader",
    "other bytes",
    "differs, and is said",
    "second reader differs",
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--files", type=int, default=50)
    options = parser.parse_args()
    copied: dict[str, bool] = {}  # texts, and whether they have words
    needs_translation = mtkit.documents.translate.needs_translation

    def has_letters(text: str) -> bool:
        if has := any(map(str.isalpha, text)):
            copied.update(
                {text: re.search(r"\b[a-z]{2,} [a-z]{2,}\b", text) is not None} if not needs_translation(text) else {}
            )
        return has

    mtkit.documents.translate.needs_translation = has_letters
    found: dict[str, dict[str, Path]] = {}
    for path in (each for folder in options.folders for each in folder.rglob("*.*")):
        suffix = document_suffix(path)[1:] if path.suffix != ".xml" else document_suffix(path)
        suffix = SUFFIXES.get(suffix, suffix)
        limit = MAX_BYTES << 3 * (suffix in ZIPPED)
        if suffix in CHECKS and path.is_file() and 0 < path.stat().st_size <= limit:
            found.setdefault(suffix, {})[hashlib.sha256(path.read_bytes()).hexdigest()] = path
    print("| format | files |", " | ".join(OUTCOMES), "|")
    print("|---" * (2 + len(OUTCOMES)) + "|")
    for suffix, files in sorted(found.items()):
        chosen = [path for _, path in sorted(files.items())][: options.files]
        counts = Counter(outcome(suffix, path) for path in chosen)
        print("|", " | ".join((suffix, str(len(chosen)), *(str(counts[each]) for each in OUTCOMES))), "|", flush=True)
    words = [text for text, has_words in copied.items() if has_words]
    print(f"{len(copied):,} different texts would be copied, {len(words)} with words: {words[:20]}", file=sys.stderr)


def outcome(suffix: str, path: Path) -> str:
    """The outcome of one document."""
    before = path.read_bytes()
    own = {"docx": check_docx, "md": partial(check_md, read=str.upper)}  # labels of links stay
    own |= {each: partial(check_archive, suffix=each) for each in ZIPPED}
    own |= {"arb": check_arb, "epub": check_epub}
    check = {**CHECKS, **own}[suffix]
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / f"a.{suffix}", Path(folder) / f"b.{suffix}"
        source.write_bytes(before)
        try:
            translate(source, output, same)
            copied = output.read_bytes()
            report = translate(source, output)
        except MtkitError as error:
            return note("refused", path, error)
        after = output.read_bytes()
    read = members if suffix in ("docx", *ZIPPED) else bytes
    if suffix not in ADDS_TEXT and read(copied) != read(before):
        return note("other bytes", path, "")
    try:
        check(before, after)
    except AssertionError as error:
        return note("differs, and is said" if report.guessed else "second reader differs", path, error)
    except Exception as error:  # of the second reader
        return note("no second reader", path, error)
    return "as it should be"


def note(result: str, path: Path, error: object) -> str:
    """The result, which stderr has with its file."""
    message = " ".join(str(error).split())[:300]
    print(f"{result}: {path}: {type(error).__name__} {message!a}", file=sys.stderr)
    return result


def check_archive(before: bytes, after: bytes, suffix: str) -> None:
    """Compare members: tags and attributes are the same, texts the same or raised; and what a library reads."""
    from lxml import etree

    old, new = members(before), members(after)
    assert list(new) == list(old)
    for name in old:
        if old[name] != new[name]:
            both = [list(etree.fromstring(each[name]).iter("{*}*")) for each in (old, new)]
            tags, new_tags = ([(each.tag, without_space(each)) for each in elements] for elements in both)
            assert new_tags == tags, name
            texts = [squeezed("".join(elements[0].itertext())) for elements in both]
            assert texts[1].upper() == texts[0].upper(), name
    if suffix in READERS:
        assert READERS[suffix](after) == [text.upper() for text in READERS[suffix](before)]


def without_space(element) -> dict[str, str]:
    """The attributes of an element, without `xml:space`, which a text with outer spaces needs."""
    return {name: value for name, value in element.attrib.items() if not name.endswith("}space")}


def slide_texts(content: bytes) -> list[str]:
    """The texts of the shapes of all slides."""
    import pptx

    shapes = [shape for slide in pptx.Presentation(io.BytesIO(content)).slides for shape in slide.shapes]
    return [squeezed(shape.text_frame.text) for shape in shapes if shape.has_text_frame]


def cell_texts(content: bytes) -> list[str]:
    """The texts of the cells of all sheets that are no formulas."""
    import openpyxl

    cells = [cell for sheet in openpyxl.load_workbook(io.BytesIO(content)) for row in sheet for cell in row]
    return [cell.value for cell in cells if cell.data_type == "s" and isinstance(cell.value, str)]


READERS = {"pptx": slide_texts, "xlsx": cell_texts}


def check_arb(before: bytes, after: bytes) -> None:
    """Compare keys, metadata and messages, of which the texts are raised: those of branches in ICU messages."""
    old, new = json.loads(before), json.loads(after)
    assert list(new) == list(old)
    for name, value in old.items():
        if name == "@@locale":
            assert new[name] == "de"
        else:
            assert new[name] == (value if name.startswith("@") else raised_message(value)), name


def raised_message(message: str) -> str:
    """A message in capitals; of ICU messages with branches the texts alone, by the tokens of pyicumessageformat."""
    from pyicumessageformat import Parser

    if not re.search(r"\{\s*\w+\s*,\s*(plural|select|selectordinal)\s*,", message):
        return message.upper()
    tokens: list[dict[str, str]] = []
    Parser().parse(message, tokens)
    return "".join(each["text"].upper() if each["type"] == "text" else each["text"] for each in tokens)


def check_epub(before: bytes, after: bytes) -> None:
    """Compare members: the pages and tables of contents of the manifests as HTML, all others to the byte."""
    from lxml import etree

    old, new = members(before), members(after)
    assert list(new) == list(old)
    pages = set()
    for package in (name for name in old if name.endswith(".opf")):
        for item in etree.fromstring(old[package]).iter("{*}item"):
            if re.search("xhtml|ncx", item.get("media-type", "")):
                pages.add(posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(item.get("href", "")))))
    for name in old:
        if name in pages:
            check_html(old[name], new[name])
        else:
            assert new[name] == old[name], name


def check_docx(before: bytes, after: bytes) -> None:
    """Compare members and paragraphs."""
    import docx

    old, new = members(before), members(after)
    text = r"word/(document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml"
    assert list(new) == list(old)
    assert all(new[name] == old[name] for name in old if not re.fullmatch(text, name))
    a, b = (docx.Document(io.BytesIO(each)) for each in (before, after))
    assert [p.text.upper() for p in b.paragraphs] == [p.text.upper() for p in a.paragraphs]
    assert [[run.bold for run in p.runs] for p in b.paragraphs] == [[run.bold for run in p.runs] for p in a.paragraphs]


if __name__ == "__main__":
    main()
