"""Pairs of XLIFF, PO, CSV and TSV, against a second reader of each format."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest

from mtkit.documents.pairs import MarkedPair, read_pairs
from mtkit.errors import UsageError

TEXTS = [
    'a "b" c',
    "x & y",
    "1 < 2",
    "tab\there",
    "two\nlines",
    "comma, semicolon;",
    "back\\slash",
    "日本 語",
    "Ä ö",
    "x",
]


def pairs_of(path: Path) -> list[tuple[str, str]]:
    return [(pair.src.text, pair.tgt.text) for pair in read_pairs(path, src_lang="en", tgt_lang="de")]


def sample(seed: int, count: int = 60) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(f"{number} {rng.choice(TEXTS)}", f"{rng.choice(TEXTS)} {number}") for number in range(count)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("suffix", "rules"),
    [
        ("csv", {}),
        ("csv", {"delimiter": ";"}),
        ("tsv", {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None}),
    ],
)
def test_tables_are_read_as_by_the_csv_module(tmp_path, suffix, rules, seed):
    path = tmp_path / f"a.{suffix}"
    rows = [row for row in sample(seed) if suffix == "csv" or not any(set("\t\n") & {*text} for text in row)]
    file = io.StringIO(newline="")
    csv.writer(file, **rules).writerows(
        [("source", "target", "note"), *((*row, "n") for row in rows), ("a", ""), ("", "x")]
    )
    path.write_text(file.getvalue(), encoding="utf-8", newline="")
    with path.open(encoding="utf-8", newline="") as read:
        expected = [(row[0], row[1]) for row in csv.reader(read, **rules) if row[0].strip() and row[1].strip()]
    assert pairs_of(path) == expected == [("source", "target"), *rows]


def quoted(text: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


@pytest.mark.parametrize("seed", range(3))
def test_messages_are_read_as_by_polib(tmp_path, seed):
    polib = pytest.importorskip("polib")
    entries = ['msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n']
    for number, (src, tgt) in enumerate(sample(seed)):
        fuzzy = "#, fuzzy\n" if number % 7 == 3 else ""
        context = f'msgctxt "c{number}"\n' if number % 5 == 2 else ""
        tgt = "" if number % 11 == 5 else tgt
        middle = len(src) // 2
        parts = f'""\n{quoted(src[:middle])}\n{quoted(src[middle:])}' if number % 3 == 1 else quoted(src)
        entries.append(f"# note\n{fuzzy}{context}msgid {parts}\nmsgstr {quoted(tgt)}\n")
    entries.append('msgid "one"\nmsgid_plural "many"\nmsgstr[0] "eins"\nmsgstr[1] "viele"\n')
    path = tmp_path / "a.po"
    path.write_text("\n".join(entries), encoding="utf-8")
    read = [each for each in polib.pofile(str(path)) if not each.fuzzy]
    expected = [(each.msgid, each.msgstr) for each in read if each.msgstr]
    assert pairs_of(path) == [*expected, ("one", "eins"), ("many", "viele")]
    assert len(expected) > 40


def unit(version: str, number: int, src: str, tgt: str) -> str:
    texts = f"<source>{escape(src)}</source>" + (f"<target>{escape(tgt)}</target>" if tgt else "")
    if version == "1.2":
        return f'<trans-unit id="{number}">{texts}<alt-trans><target>other</target></alt-trans></trans-unit>'
    return f'<unit id="{number}"><segment>{texts}</segment></unit>'


@pytest.mark.parametrize("version", ["1.2", "2.0"])
def test_units_are_read_as_by_elementtree(tmp_path, version):
    rows = [(src, "" if number % 6 == 4 else tgt) for number, (src, tgt) in enumerate(sample(4))]
    body = "\n".join(unit(version, number, *row) for number, row in enumerate(rows))
    path = tmp_path / "a.xlf"
    path.write_text(f'<?xml version="1.0"?>\n<xliff version="{version}"><file>{body}</file></xliff>', encoding="utf-8")
    root = ElementTree.parse(path).getroot()
    holders = root.iter("trans-unit" if version == "1.2" else "segment")
    texts = [(each.findtext("source"), each.findtext("target")) for each in holders]
    assert pairs_of(path) == [(src, tgt) for src, tgt in texts if tgt]
    assert sum(1 for _, tgt in texts if tgt) == 50


def test_pairs_have_inline_marks_and_the_lines_of_their_units(tmp_path):
    path = tmp_path / "a.xlf"
    path.write_text(
        '<xliff version="1.2"><file><body>\n<trans-unit id="1"><source>a <g id="1">b</g></source>'
        '<target><g id="1">B</g> A</target></trans-unit>\n\n<trans-unit id="2"><source>c</source><target>C</target>'
        "</trans-unit></body></file></xliff>",
        encoding="utf-8",
    )
    first, second = read_pairs(path, src_lang="en", tgt_lang="de")
    assert isinstance(first, MarkedPair)
    assert (first.src.text, first.tgt.text, second.src.text, second.tgt.text) == ("a b", "B A", "c", "C")
    assert len(first.src.marks) == len(first.tgt.marks) > 0 == len(second.src.marks)
    assert 1 <= first.line < second.line <= 4  # where the text between units begins


def test_workbooks_are_read_as_by_openpyxl(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book, path = openpyxl.Workbook(), tmp_path / "a.xlsx"
    for row in [*sample(5), ("only", None), (None, "x"), (7, "sieben")]:
        book.active.append(row)
    book.save(path)
    rows = openpyxl.load_workbook(path).active.iter_rows(values_only=True)
    assert pairs_of(path) == [(str(src).strip(), str(tgt).strip()) for src, tgt in rows if src and tgt]


def test_formats_without_pairs_are_refused(tmp_path):
    path = tmp_path / "a.html"
    path.write_text("<p>x</p>")
    with pytest.raises(UsageError, match="has texts, but no pairs; the names of files with pairs end with"):
        pairs_of(path)
