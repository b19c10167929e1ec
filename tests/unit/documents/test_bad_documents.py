"""Documents that are hostile, damaged or something else: one sentence with the place, and no output."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from mtkit.documents.format import format_of
from mtkit.documents.pairs import read_pairs
from mtkit.errors import DataError, MissingInputError, UsageError
from tests.unit.documents.generated import Line, Writer, translate


def zipped(**contents: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name.replace("__", "/").replace("_xml", ".xml"), content)
    return file.getvalue()


LAUGHS = b"""<?xml version="1.0"?>
<!DOCTYPE tmx [
<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;">]>
<tmx><body><tu><tuv xml:lang="en"><seg>&b;</seg></tuv></tu></body></tmx>"""
EXTERNAL = b'<!DOCTYPE xliff [<!ENTITY x SYSTEM "file:///etc/passwd">]><xliff>&x;</xliff>'
W = b'<w:document xmlns:w="w"><w:p><w:r><w:t>Hello</w:t></w:r></w:p></w:document>'
DEEP = b"<document-content>" + b"<text:p>" * 60 + b"a" + b"</text:p>" * 60 + b"</document-content>"
CASES = [
    ("a.tmx", LAUGHS, ":3: declares the entity a"),
    ("a.xlf", EXTERNAL, ":1: declares the entity x"),
    ("a.tmx", b"<tmx>\n<body><tu><seg>x</tu></seg></body></tmx>", ":2: not well-formed XML"),
    ("a.tmx", b"<tmx>\n<body>", ":2: not well-formed XML"),
    ("a.tmx", b"<tmx>&nosuch;</tmx>", "not well-formed XML"),
    ("a.tmx", b"", "not well-formed XML"),
    ("a.xlf", b"<html></html>", "outermost element is html, not xliff"),
    ("a.tmx", b'<?xml version="1.0" encoding="nosuch"?><tmx/>', "the encoding nosuch is unknown"),
    ("a.tmx", b'<?xml version="1.0" encoding="UTF-16"?>\n<tmx/>', ":1: is not UTF-16"),
    ("a.html", b"<p>ok\n\xff</p>", ":2: a byte that is not utf-8"),
    ("a.md", b"a\0b", ":1: a NUL character"),
    ("a.json", b'{"a": "b",\n}', ":2: not JSON"),
    ("a.json", b"[" * 100_000, "nested too deeply"),
    ("a.srt", b"Just a text.\n", "no cue with a time line"),
    ("a.po", b'msgid "a"\nmsgstr ""\n\nmsgid "b\nmsgstr ""\n', ":4: not a line of a PO file"),
    ("a.po", b'msgid "a"\nmsgid "b"\nmsgstr ""\n', ":2: a second msgid"),
    ("a.po", b'msgid "a"\n', "a message without msgstr"),
    ("a.csv", b'a,b\n1,"x"y\n', ":2: text after the closing quote"),
    ("a.docx", b"no zip", "not a Word document"),
    ("a.docx", zipped(a=b"b"), "without word/document.xml"),
    ("a.docx", zipped(word__document_xml=LAUGHS), "declares the entity a"),
    ("a.docx", zipped(word__document_xml=b" " * (65 << 20)), "a zip bomb?"),
    ("a.docx", zipped(word__document_xml=W)[:-40], "not a Word document"),
    ("a.docx", zipped(word__document_xml=b"<html/>"), "outermost element is html"),
    ("a.pptx", b"no zip", "not a PowerPoint presentation"),
    ("a.pptx", zipped(a=b"b"), "without a slide, so no PowerPoint presentation"),
    ("a.pptx", zipped(**{"[Content_Types]_xml": LAUGHS}), "[Content_Types].xml:3: declares the entity a"),
    ("a.xlsx", zipped(**{"[Content_Types]_xml": b"<Types>"}), "[Content_Types].xml:1: not well-formed XML"),
    ("a.xlsx", zipped(**{"[Content_Types]_xml": b" " * (65 << 20)}), "a zip bomb?"),
    ("a.odt", zipped(a=b"b"), "without content.xml, so no document in the OpenDocument format"),
    ("a.odt", zipped(content_xml=W), "outermost element is document, not document-content"),
    ("a.odt", zipped(content_xml=DEEP), "more than 50 paragraphs inside each other"),
    ("a.epub", zipped(**{"META-INF__container_xml": b"<container><a/></container>"}), "without a page"),
    ("a.epub", zipped(**{"META-INF__container_xml": LAUGHS}), "META-INF/container.xml:3: declares the entity a"),
    ("strings.xml", b"<html/>", "outermost element is html, not resources"),
    ("a.resx", b"<root><data>", "not well-formed XML"),
    ("a.arb", b'{"a": "b"', "not JSON"),
    ("a.ass", b"Just a text.\n", "no section [Events]"),
    ("a.ass", b"[Events]\nDialogue: 0,a\n", ":2: a dialogue before the line Format:"),
    ("a.ass", b"[Events]\nFormat: Start, End, Text\nDialogue: 0,a\n", ":3: a dialogue of 2 fields"),
]


@pytest.mark.parametrize(("name", "content", "message"), CASES)
def test_a_bad_document_is_refused_with_its_place(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    source, output = tmp_path / name, tmp_path / f"out-{name}"
    source.write_bytes(content)
    with pytest.raises(DataError) as caught:
        translate(source, output)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(source))
    assert "\n" not in str(caught.value)
    assert source.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_flipped_byte_in_a_member_is_damage(tmp_path: Path) -> None:
    source = tmp_path / "a.docx"
    content = bytearray(zipped(word__document_xml=W, word__image=bytes(range(256)) * 40))
    content[content.index(b"word/image") + 60] ^= 1
    source.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        translate(source, tmp_path / "b.docx")
    assert [each.name for each in tmp_path.iterdir()] == ["a.docx"]


def test_an_error_of_the_translator_leaves_nothing(tmp_path: Path) -> None:
    def failing(lines):
        yield Line(next(iter(lines)))
        raise DataError("no more")

    source, output = tmp_path / "a.html", tmp_path / "b.html"
    source.write_bytes(b"<p>one</p><p>two</p>")
    output.write_bytes(b"before")
    with pytest.raises(DataError, match="no more"):
        translate(source, output, failing)
    assert output.read_bytes() == b"before"


@pytest.mark.parametrize("target", ["</b></w:t>&<!--", "--> ]]>", "a\nb", '"', "\\", "\x01x", "]] >", "```", "|"])
@pytest.mark.parametrize("suffix", ["html", "srt", "vtt", "po", "xlf", "tmx", "csv", "json", "docx"])
def test_a_translation_cannot_break_its_document(suffix: str, target: str, tmp_path: Path) -> None:
    """The letters of all translations are text of the translated document: none has become a tag or a field."""
    source, output, again = (tmp_path / f"{name}.{suffix}" for name in "abc")
    source.write_bytes(Writer(3).document(suffix))
    written: list[str] = []
    read: list[str] = []

    def hostile(lines: Iterable[str]) -> Iterator[Line]:
        for line in lines:
            written.append(f"{target} {line}")
            yield Line(written[-1])

    def recorded(lines: Iterable[str]) -> Iterator[Line]:
        for line in lines:
            read.append(line)
            yield Line(line)

    translate(source, output, hostile)
    translate(output, again, recorded)
    if suffix in ("tmx", "xlf"):
        assert read == []  # all is translated
        read = [tgt for _, _, tgt in read_pairs(output, src_lang="en", tgt_lang="de")]
    elif suffix == "po":
        assert read == []
        polib = pytest.importorskip("polib")
        read = [text for entry in polib.pofile(output) for text in (entry.msgstr, *entry.msgstr_plural.values())]
    assert written
    assert not Counter(written_letters(written)) - Counter(written_letters(read))


def written_letters(texts: Iterable[str]) -> str:
    return "".join(char for text in texts for char in text if char.isalpha())


def test_crossing_tags_stay_where_they_are(tmp_path: Path) -> None:
    source, output = tmp_path / "a.html", tmp_path / "b.html"
    source.write_bytes(b"<p>one <b>two <i>three</b> four</i> five</p>")
    translate(source, output)
    assert output.read_bytes() == b"<p>ONE <b>TWO <i>THREE</b> FOUR</i> FIVE</p>"


def test_an_encoding_that_lacks_a_character(tmp_path: Path) -> None:
    source, output = tmp_path / "a.po", tmp_path / "b.po"
    source.write_bytes(b'msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\n\nmsgid "a"\nmsgstr ""\n')
    with pytest.raises(DataError, match="lacks the character"):
        translate(source, output, lambda lines: (Line("\u65e5") for _ in lines))


def test_other_mistakes(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError):
        translate(tmp_path / "a.html", tmp_path / "b.html")
    with pytest.raises(UsageError, match="--field names columns"):
        format_of(tmp_path / "a.html", src_lang="en", tgt_lang="de", fields=["x"])
    (tmp_path / "a.csv").write_bytes(b"id,text\n1,x\n")
    with pytest.raises(DataError, match="no column 'y'; it has id, text"):
        translate(tmp_path / "a.csv", tmp_path / "b.csv", fields=["y"])


@pytest.mark.parametrize(
    ("content", "fields", "message"),
    [
        ('{"a": 2, "b": {"c\\n": 1}}', ["zzz"], r"a.json:1: no object has the key 'zzz'; the keys are 'a', 'b', 'c\n'"),
        ('{"a": "x", "\\ud800": [{"a": "zzz"}]}', ["a", "zzz"], r"the key 'zzz'; the keys are 'a', '\ud800'"),
        ('["zzz", "x"]', ["zzz"], "the key 'zzz'; the keys are none"),
    ],
)
def test_a_key_that_json_lacks_is_refused(content: str, fields: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError) as caught:
        translate(tmp_path / "a.json", tmp_path / "b.json", fields=fields)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_a_key_of_json_without_words_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": "x y", "n": 1}')
    assert translate(tmp_path / "a.json", tmp_path / "b.json", fields=["n"]).units == 0
    assert translate(tmp_path / "a.json", tmp_path / "b.json", fields=["n", "a"]).units == 1
