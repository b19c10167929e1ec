"""The time of a document grows with its length, whatever is repeated in it, with and without ends."""

from __future__ import annotations

import gc
import itertools
import random
import re
import time
from pathlib import Path

import pytest

from mtkit.documents.formats.html import Html, InlineXml
from mtkit.errors import MtkitError
from tests.toy.sampling import sampled, thinned
from tests.unit.documents.generated import DRAWING, SPREADSHEET, office_types, same, translate, upper, zipped

WORDS = ["word ", " ", "  ", "\n", "\r", "\r\n", "\n\n", "\t", ". ", "&", "&amp;", '"', "'", "<", ">", "1", "{", "}"]
HTML = [
    "<p>",
    "</p>",
    "<b>",
    "</b>",
    "<!--",
    "-->",
    "<a/b='",
    "<title>",
    "</title>",
    "<script>",
    "</script>",
    "<li>",
    "<pre>",
    "</pre>",
    "<br>",
    "<![CDATA[",
    "<?php",
    "<code>",
    "</code>",
    "<table>",
    "<td>",
    "<meta/",
    "charset=",
    "<b>x</b>",
    "<b></b>",
]
MARKDOWN = [
    "*",
    "**",
    "_",
    "`",
    "``",
    "[",
    "]",
    "(",
    ")",
    "![",
    ">",
    "-",
    "#",
    "|",
    "|---|",
    "<!--",
    "~~",
    "~",
    "\\",
    "http://a.b/",
    "[^a]",
    "!!!",
    ":",
    "<a:",
    ":::::",
    "*a*",
    "[a](b)",
    "<br>",
    "---",
    "1.",
]
XLIFF = [
    '<trans-unit/id="1">',
    "</trans-unit>",
    "<source>word",
    "</source>",
    "<target>",
    "</target>",
    '<g/id="1">',
    "</g>",
    '<x/id="1"/>',
    "<seg-source>",
    "</seg-source>",
    '<mrk/mtype="seg"/mid="1">',
    "</mrk>",
    "<alt-trans>",
    "</alt-trans>",
    "<!--c-->",
    "<![CDATA[a]]>",
    "<group>",
    "</group>",
    "<target/>",
    '<bpt/id="1">',
    "</bpt>",
    "<note>n</note>",
]
TMX = [
    "<tu>",
    "</tu>",
    "<tuv/xml:lang='en'>",
    "<tuv/xml:lang='de'>",
    "</tuv>",
    "<seg>word",
    "</seg>",
    "<hi>",
    "</hi>",
    "<ph/>",
    "<!--c-->",
    "<![CDATA[a]]>",
    "<bpt/i='1'>x</bpt>",
    "<ept/i='1'>x</ept>",
    "<prop>p</prop>",
]
DOCX = [
    "<w:p>",
    "</w:p>",
    "<w:r>",
    "<w:r/a='b'>",
    "</w:r>",
    "<w:t>word</w:t>",
    "<w:t>",
    "</w:t>",
    "<w:rPr><w:b/></w:rPr>",
    "<w:rPr>",
    "</w:rPr>",
    "<w:tab/>",
    "<!--c-->",
    "<w:t/>",
    "<w:tc>",
    "</w:tc>",
    "<mc:Fallback/>",
    "<!--<w:r><w:rPr>-->",
]
ANDROID = [
    "<string/name='a'>word",
    "</string>",
    "<plurals>",
    "</plurals>",
    "<item>",
    "</item>",
    "<string-array>",
    "</string-array>",
    "<b>",
    "</b>",
    "<g>",
    "</g>",
    "&lt;b>",
    "&lt;/b>",
    "\\",
    "\\n",
    "@string/a",
    "<!--c-->",
    "<![CDATA[<b>a</b>]]>",
]
ODT = [
    "<text:p>word",
    "</text:p>",
    "<text:span/a='b'>",
    "</text:span>",
    "<text:tab/>",
    "<text:note>",
    "</text:note>",
    "<text:s/>",
    "<draw:frame>",
    "</draw:frame>",
    "<text:h>",
    "</text:h>",
    "<!--c-->",
]
CUE = ["00:00:01,000 --> 00:00:02,000\n", "1\n", "<i>", "</i>", "{\\an8}", "- ", "-->", ".<", "<b>x</b>", "NOTE "]
PO = [
    'msgid "word"\n',
    'msgstr ""\n',
    '"word"\n',
    "# c\n",
    "#, fuzzy\n",
    "\\",
    'msgid_plural "words"\n',
    "msgstr[0]",
    "msgid",
]
TOKENS = {
    "html": HTML,
    "md": MARKDOWN,
    "srt": CUE,
    "vtt": CUE,
    "po": [*PO, "Content-Type:", "charset="],
    "csv": [",", ";", '""', "|"],
    "tsv": [",", ";", '""', "|"],
    "json": ['"word",', ",", ":", "{", "}", "[", "]", "\\", '["word",', '{"a":', "//", "/*", '\\"', "{n, plural, "],
    "xlf": XLIFF,
    "tmx": TMX,
    "docx": DOCX,
    "pptx": [each.replace("w:", "a:") for each in DOCX] + ["<a:fld>", "</a:fld>", "<a:rPr/lang='x'/>"],
    "xlsx": ["<si>", "</si>", "<t>word</t>", "<r>", "</r>", "<rPr>", "</rPr>", "<rPh>", "</rPh>", "<is>", "</is>"],
    "odt": ODT,
    "arb": ['"a": "word",', ",", ":", "{", "}", '"@a": {', "\\", "@@locale", '"'],
    "properties": ["a = word", "\\", "\\\n", "\\u0041", "=", ":", "# c\n", "!", "'", "''", "{0}", "\f"],
    "strings.xml": ANDROID,
    "resx": ["<data/name='a'>", "</data>", "<value>word", "</value>", "&lt;b>", "&lt;/b>", "<![CDATA[a]]>"],
    "ass": ["Dialogue: 0,,", "word,", "{\\i1}", "{", "}", "\\N", "\\h", "[Events]\n", "Format: a, Text\n", ":", ","],
}
FRAMES = {
    "xlf": '<xliff version="1.2"><file><body>{}</body></file></xliff>',
    "tmx": "<tmx><body>{}</body></tmx>",
    "docx": '<w:document xmlns:w="w" xmlns:mc="mc"><w:body>{}</w:body></w:document>',
    "pptx": f'<p:sld xmlns:p="p" xmlns:a="{DRAWING}" xmlns:mc="mc">{{}}</p:sld>',
    "xlsx": f'<sst xmlns="{SPREADSHEET}">{{}}</sst>',
    "odt": '<office:document-content xmlns:office="o" xmlns:text="t" xmlns:draw="d">{}</office:document-content>',
    "json": '{{"a": [{} 1]}}',
    "arb": '{{{} "z": 1}}',
    "strings.xml": "<resources>{}</resources>",
    "resx": "<root>{}</root>",
    "ass": "[Events]\nFormat: a, b, Text\n{}",
}
MEMBERS = {  # the member with text of an archive, and its type
    "docx": ("word/document.xml", ""),
    "pptx": ("ppt/slides/slide1.xml", "presentationml.slide"),
    "xlsx": ("xl/sharedStrings.xml", "spreadsheetml.sharedStrings"),
    "odt": ("content.xml", ""),
}
KNOWN = [  # beginning, unit and end of what took quadratic time
    ("csv", "", "a ", ""),
    ("csv", "", "a,b\r", ""),
    ("tsv", "", "a ", "\n"),
    ("srt", "1\n00:00:01,000 --> 00:00:02,000\n", "a\n", ""),
    ("srt", "1\n00:00:01,000 --> 00:00:02,000\n", ".<a", "\n\n1\n00:00:01,000 --> 00:00:02,000\nb"),
    ("tmx", "", "<tuv xml:lang='en'>", ""),
    ("docx", "<w:r><w:t>a</w:t></w:r>", "<w:p><w:r><w:t>word</w:t></w:r></w:p>", ""),
    ("docx", "", "<!--<w:r><w:rPr>-->", ""),
    ("html", "<p>", "<b>word</b> ", ""),
    ("html", "<p>", "<i>x</i><b></b>", ""),
    ("html", "<p>", "word <b>", ""),
    ("md", "a", " ", "b"),
    ("md", "", "a [", ""),
    ("md", "", "a [", "]"),
    ("md", "", "a *b", ""),
    ("md", "<a", ":", ""),
    ("md", "", "![", ""),
    ("po", "msgid", " ", 'a\nmsgstr ""\n'),
    ("po", "#", "Content-Type:", "\n"),
    ("json", "", '"word", ', ""),
    ("json", '"', '\\"', ""),
    ("json", '"{n, plural, other ', "{", '",'),
    ("json", '"1@', "a", '",'),
    ("json", '"1@', "1a", '",'),
    ("json", '"http://a', ".", '",'),
    ("xlf", '<trans-unit id="1"><source>a</source><target ', " ", 'a="b"></target></trans-unit>'),
    ("xlf", "", '<trans-unit id="1"><source>a</source></trans-unit>', ""),
    ("odt", "<text:p>", "word <text:note><text:p>x</text:p></text:note> ", ""),
    ("odt", "<text:p>", "<draw:frame><text:p>A dog.</text:p></draw:frame>", ""),
    ("md", "#", "&amp;``<!--", "**"),
    ("md", "a ", "<code>", "b"),
    ("md", "a ", "`c`, ", "b"),
    ("md", "a ", "$x ", "b"),
    ("md", "a ", "<b>", "b"),
    ("md", "a ", "[a] ", "\n\n[a]: x"),
    ("html", "<p>a ", "<x-y>", "b"),
    ("html", "<p>", "<x-y>a</x-y>", "b"),
    ("html", "<p>a", "<sup>1", "b"),
    ("html", "<p>", "a<b>1</b>", "b"),
    ("html", "<p>", "a <b>c</b> ", "b"),
]


def closed(text: str) -> str:
    """XML with the elements that are open closed, and without other end tags."""
    parts: list[str] = []
    opened: list[str] = []
    position = 0
    text = re.sub(r"&(?!amp;)|<(?![\w!/])", "", text)
    for tag in re.finditer(r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<(/?)([\w:-]+)[^<>]*?(/?)>", text, re.DOTALL):
        parts.append(text[position : tag.start()])
        position = tag.end()
        if tag[2] is None or tag[3] or not tag[1] or opened[-1:] == [tag[2]]:
            parts.append(tag[0])
        if tag[2] and not tag[3]:
            if not tag[1]:
                opened.append(tag[2])
            elif opened[-1:] == [tag[2]]:
                opened.pop()
    return "".join([*parts, text[position:], *(f"</{name}>" for name in reversed(opened))])


def document(suffix: str, begin: str, unit: str, end: str, size: int) -> bytes:
    text = begin + unit * (size // len(unit)) + end
    if suffix in ("xlf", "tmx", "strings.xml", "resx", *MEMBERS):
        text = closed(text)
    text = FRAMES.get(suffix, "{}").format(text)
    if suffix not in MEMBERS:
        return text.encode()
    name, kind = MEMBERS[suffix]
    return zipped({"[Content_Types].xml": office_types({name: kind}), name: text})


def seconds(folder: Path, suffix: str, content: bytes, translator) -> float:
    """Processor time of a translation, or of a refusal."""
    source = folder / f"a.{suffix}"
    source.write_bytes(content)
    gc.disable()
    begun = time.process_time()
    try:
        translate(source, folder / f"b.{suffix}", translator)
        if suffix == "html":
            Html().units(content.decode())
            InlineXml().units(content.decode())
    except MtkitError:
        pass
    finally:
        gc.enable()
    return time.process_time() - begun


def case(seed: int) -> tuple[str, str, str, str]:
    rng = random.Random(seed)
    suffix = [*TOKENS][seed % len(TOKENS)]
    tokens = [token.replace("/", " ", 1) if re.match(r"<\w[\w:-]*/[^>]", token) else token for token in TOKENS[suffix]]
    begin, unit, end = ("".join(rng.choices([*tokens, *WORDS], k=rng.randint(k, 3))) for k in (0, 1, 0))
    return suffix, begin, unit, end


def check_growth(folder: Path, parts: tuple[str, str, str, str], translator) -> None:
    """Eight times the length takes 64 times as long where time is quadratic."""
    short, long = (seconds(folder, parts[0], document(*parts, size), translator) for size in (10_000, 80_000))
    assert long < 24 * max(short, 0.01), parts


@pytest.mark.parametrize("translator", [pytest.param(same, marks=pytest.mark.whole), upper])
@pytest.mark.parametrize("parts", thinned(KNOWN, 3), ids=[f"{suffix}-{unit[:20]!r}" for suffix, _, unit, _ in KNOWN])
def test_known_repetitions(parts: tuple[str, str, str, str], translator, tmp_path: Path) -> None:
    check_growth(tmp_path, parts, translator)


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(sampled(22, least=len(TOKENS))))
def test_repetitions(seed: int, tmp_path: Path) -> None:
    check_growth(tmp_path, case(seed), upper)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(22, 222))
def test_each_doubling_takes_twice_the_time(seed: int, tmp_path: Path) -> None:
    parts, size = case(seed), 20_000
    times = [seconds(tmp_path, parts[0], document(*parts, size), upper)]
    while size < 600_000 and times[-1] < 1:
        size *= 2
        times.append(min(seconds(tmp_path, parts[0], document(*parts, size), upper) for _ in range(3)))
    assert all(after < 2.3 * before for before, after in itertools.pairwise(times) if before > 0.1), times
