"""Pairs of XLIFF, PO, CSV and TSV, against a second reader of each format."""

from __future__ import annotations

import csv
import gzip
import io
import random
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest

from mtkit.documents.pairs import read_pairs
from mtkit.errors import DataError, UsageError
from tests.toy.sampling import seeds

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
    return [(src, tgt) for _, src, tgt in read_pairs(path, src_lang="en", tgt_lang="de")]


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
    assert pairs_of(path) == expected[1:] == rows


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


def test_pairs_have_the_lines_of_their_units_and_no_marks(tmp_path):
    path = tmp_path / "a.xlf"
    path.write_text(
        '<xliff version="1.2"><file><body>\n<trans-unit id="1"><source>a <g id="1">b</g></source>'
        '<target><g id="1">B</g> A</target></trans-unit>\n\n<trans-unit id="2"><source>c</source><target>C</target>'
        "</trans-unit></body></file></xliff>",
        encoding="utf-8",
    )
    first, second = read_pairs(path, src_lang="en", tgt_lang="de")
    assert (*first[1:], *second[1:]) == ("a b", "B A", "c", "C")
    assert 1 <= first[0] < second[0] <= 4  # where the text between units begins


def tmx_unit(rng: random.Random, number: int) -> str:
    """A unit of a translation memory, as the many programs write them."""
    texts = [f"{number} {rng.choice(TEXTS)}" for _ in range(3)]
    space = rng.choice(["", " ", "\n  "])

    def variant(lang: str, text: str) -> str:
        content = escape(text)
        content = rng.choice(
            [content, content, content, f"<![CDATA[{text}]]>", f'{content}<ph x="1"/>', f"<hi>{content}</hi> &#8364;"]
        )
        name = rng.choice(["xml:lang", "xml:lang", "lang"])
        note = rng.choice(["", "", "<note>n</note>", '<prop type="a>b">p</prop>'])
        return f'<tuv {name}="{lang}" x=">">{space}{note}<seg>{content}</seg>{space}</tuv>'

    langs = rng.choice([["en", "de"], ["de", "en"], ["EN-GB", "de-DE"], ["en", "fr"], ["en", "de", "fr"], ["de"]])
    rng.random() < 0.2 and langs.reverse()
    before = rng.choice(["", "", "", "<!-- <tu></tu> -->", "\n\n", "<note>x</note>"])
    inside = rng.choice(["", "", '<prop type="t">x</prop>', "<note>see</note>", "<!-- c -->"])
    body = space.join(variant(lang, text) for lang, text in zip(langs, texts, strict=False))
    tag = rng.choice(["<tu>", "<tu>", f'<tu tuid="{number}">', '<tu changeid="a>b">'])
    return f"{before if 'note' not in before else ''}{tag}{inside}{space}{body}{space}</tu>{space}"


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_translation_memories_are_read_as_by_elementtree(tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    monkeypatch.setattr("mtkit.documents.reading.CHUNK", rng.choice([50, 333, 1 << 20]))
    path = tmp_path / "a.tmx.gz"
    units = "".join(tmx_unit(rng, number) for number in range(40))
    text = f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>\n{units}</body></tmx>\n'
    path.write_bytes(gzip.compress(text.encode()))
    expected = []
    for unit in ElementTree.fromstring(text).iter("tu"):
        sides: dict[str, str] = {}
        for variant in unit.iter("tuv"):
            lang = variant.get("lang") or variant.get("{http://www.w3.org/XML/1998/namespace}lang")
            sides.setdefault(lang[:2].lower(), "".join(variant.find("seg").itertext()))
        if {"en", "de"} <= sides.keys():
            expected.append((sides["en"], sides["de"]))
    assert pairs_of(path) == expected
    assert expected
    lines = [line for line, _, _ in read_pairs(path, src_lang="en", tgt_lang="de")]
    assert lines == sorted(lines)
    assert 1 <= lines[0] <= lines[-1] <= text.count("\n")


@pytest.mark.parametrize(
    ("name", "content", "langs"),
    [
        ("a.tsv", "source\ttarget\nx\ty\n", ""),
        ("a.csv", "id,de,en\n1,y,x\n", ""),
        ("a.csv", "id,de,en\n1,x,y\n", "#de,en"),
        ("a.tsv", "x\ty\n", ""),
        ("a.jsonl", '{"src": "x", "tgt": "y"}\n\n{"src": null, "tgt": ""}\n', ""),
        ("a.jsonl", '{"translation": {"en": "x", "de": "y"}}', ""),
        ("a.ndjson", '{"a": "x", "b": "y", "src": "", "tgt": ""}', "#a,b"),
        ("a.tmx", '<tmx><tu><tuv lang="fr"><seg>x</seg></tuv><tuv lang="it"><seg>y</seg></tuv></tu></tmx>', "#fr,it"),
    ],
)
def test_the_two_sides_are_named_or_known(tmp_path, name, content, langs):
    (tmp_path / name).write_text(content)
    assert pairs_of(tmp_path / f"{name}{langs}") == [("x", "y")]
    (tmp_path / f"b{name}").write_text(content)
    assert pairs_of(tmp_path / f"*{name}{langs}") == [("x", "y")] * 2


@pytest.mark.parametrize(
    ("name", "content", "sides", "problem"),
    [
        ("a.csv", "id,de\n1,y\n", "#id,en", "a.csv:1: the header has no column 'en'; it has id, de"),
        ("a.jsonl", '{"en": "x", "de": "y"}\n{"en": "x"}\n', "", "a.jsonl:2: no object with the keys en and de, or"),
        ("a.jsonl", '{"en": 1, "de": "y"}\n', "", "a.jsonl:1: en: 1 is no text"),
        ("a.jsonl", '\n{"en"\n', "", "a.jsonl:2: not JSON"),
        ("a.tmx", '<!DOCTYPE t [<!ENTITY a "b">]><tmx/>', "", "a.tmx:1: declares the entity a"),
        ("a.tmx", "<tmx><tu><tuv></tu></tmx>", "", "a.tmx:1: not well-formed XML"),
        ("a.tsv", "x\ty\nx\tÄ\n", "", None),
    ],
)
def test_bad_parallel_text_is_named_by_its_place(tmp_path, name, content, sides, problem):
    (tmp_path / name).write_text(content)
    if problem is None:
        assert len(pairs_of(tmp_path / name)) == 2
        return
    with pytest.raises(DataError) as caught:
        pairs_of(tmp_path / f"{name}{sides}")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_workbooks_have_named_columns(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [("id", "de", "en"), (1, "y", "x"), (2, None, "z")]:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert pairs_of(tmp_path / "a.xlsx") == [("x", "y")]
    with pytest.raises(DataError, match=r"a.xlsx:1: the header has no column 'fr'"):
        pairs_of(tmp_path / "a.xlsx#en,fr")


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
    with pytest.raises(UsageError, match="a document without pairs; give a source and its translation, or a file"):
        pairs_of(path)
