"""Fifty documents of each format, read by another reader before and after: the text changes, and nothing else."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import re
import subprocess
from pathlib import Path
from shutil import which

import pytest

from tests.toy.sampling import sampled
from tests.unit.documents.generated import Writer, members, same, translate

ZIPPED = ["pptx", "xlsx", "odt", "epub"]
TEXT_MEMBER = re.compile(r"slide1|notes|sharedStrings|sheet\.xml|^content\.xml|\.xhtml$|\.ncx$")
SEEDS = range(sampled(50))
SUFFIXES = ["html", "md", "srt", "vtt", "po", "xlf", "tmx", "csv", "json", "docx"]
SUFFIXES += ["arb", "properties", "strings.xml", "resx", "ass", *ZIPPED]
IN_PLACE = ["html", "md", "srt", "vtt", "csv", "json", "properties", "strings.xml", "resx", "ass"]


KEPT = ("script", "style", "pre", "code", "kbd", "samp", "var", "textarea", "svg")


class Tags(html.parser.HTMLParser):
    """Tags, comments and scripts of a page in order, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[object] = []
        self.text = ""
        self.kept = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, attrs))
        self.kept += tag in KEPT

    def handle_endtag(self, tag):
        self.tags.append(tag)
        self.kept -= tag in KEPT

    def handle_comment(self, data):
        self.tags.append(data)

    def handle_data(self, data):
        if self.kept:
            self.tags.append(data)
        else:
            self.text += data


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def check_html(before: bytes, after: bytes) -> None:
    old, new = Tags(before.decode()), Tags(after.decode())
    assert new.tags == old.tags
    assert squeezed(new.text) == squeezed(old.text.upper())


def check_md(before: bytes, after: bytes, read=str) -> None:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    old, new = (parser.parse(each.decode()) for each in (before, after))
    assert [(t.type, t.markup) for t in new] == [(t.type, t.markup) for t in old]
    assert [t.content for t in new if t.type == "fence"] == [t.content for t in old if t.type == "fence"]
    for a, b in zip(old, new, strict=True):
        kinds = [
            [(c.type, c.markup, c.attrs) for c in t.children or () if "text" not in c.type and "break" not in c.type]
            for t in (a, b)
        ]
        assert kinds[0] == kinds[1]
        text = [squeezed("".join(c.content for c in t.children or () if c.type == "text")) for t in (a, b)]
        assert read(text[1]) == text[0].upper()


def check_subtitles(before: bytes, after: bytes) -> None:
    pysubs2 = pytest.importorskip("pysubs2")
    old, new = (
        pysubs2.SSAFile.from_string(each.decode(), format_="srt" if b"WEBVTT" not in each else "vtt")
        for each in (before, after)
    )
    assert [(e.start, e.end) for e in new] == [(e.start, e.end) for e in old]
    texts = [squeezed(re.sub(r"\\N|\{[^}]*\}", "", "".join(e.text for e in file))) for file in (old, new)]
    assert texts[1].upper() == texts[0].upper()
    assert after.count(b"\n") == before.count(b"\n")


def check_po(before: bytes, after: bytes) -> None:
    polib = pytest.importorskip("polib")
    old, new = (polib.pofile(each.decode()) for each in (before, after))
    for a, b in zip(old, new, strict=True):
        assert (b.msgid, b.msgctxt, b.occurrences, b.obsolete) == (a.msgid, a.msgctxt, a.occurrences, a.obsolete)
        if not a.obsolete and not (a.msgstr or any(a.msgstr_plural.values())):
            assert b.fuzzy
            forms = b.msgstr_plural or {0: b.msgstr}
            assert next(iter(forms.values())) == a.msgid.upper()
    assert all(
        line in after.split(b"\n") for line in before.split(b"\n") if b"msgstr" not in line and b"#," not in line
    )
    if which("msgfmt"):
        done = subprocess.run(["msgfmt", "-c", "-o", "/dev/null", "-"], input=after, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()


def check_xml(before: bytes, after: bytes) -> None:
    etree = pytest.importorskip("lxml.etree")
    old, new = (etree.fromstring(each) for each in (before, after))
    if which("xmllint"):
        assert subprocess.run(["xmllint", "--noout", "--nonet", "-"], input=after, capture_output=True).returncode == 0
    known = {etree.tostring(target) for target in old.iter("{*}target") if "".join(target.itertext()).strip()}
    for target in (each for each in new.iter("{*}target") if etree.tostring(each) not in known):
        source = target.getparent().find("{*}source")
        if target.get("state") == "needs-review-translation" or new.get("version") == "2.0":
            assert "".join(target.itertext()) == "".join(source.itertext()).upper()
            assert sorted(e.tag for e in target.iter()) == sorted(
                e.tag.replace("source", "target") for e in source.iter()
            )
    for name, tag in (("target-language", "{*}file"), ("trgLang", "{*}xliff")):  # of XLIFF, which may have none before
        for a, b in zip(old.iter(tag), new.iter(tag), strict=True):
            assert name in a.attrib or b.attrib.pop(name, "de") == "de"
    for unit in new.iter("tu"):
        source, target = unit.findall("tuv")
        if target.get("creationid"):
            assert squeezed("".join(target.find("seg").itertext())) == squeezed(
                "".join(source.find("seg").itertext()).upper()
            )
    assert etree.tostring(without_machine(new)) == etree.tostring(without_machine(old))


def without_machine(root):
    """The tree without what the translation adds."""
    for each in [*root.iter("{*}target"), *root.iter("tuv")]:
        if (each.tag.endswith("target") and each.get("state") != "translated") or each.get("creationid"):
            each.getparent().remove(each)
    for each in root.iter("{*}segment"):
        each.attrib.pop("state", None)
    for each in root.iter():
        each.tail = (each.tail or "").strip()
    return root


def check_csv(before: bytes, after: bytes) -> None:
    old, new = (list(csv.reader(io.StringIO(each.decode(), newline=""))) for each in (before, after))
    assert new == [old[0], *([cell.upper() for cell in row] for row in old[1:])]


def check_json(before: bytes, after: bytes) -> None:
    def raised(value):
        if isinstance(value, dict):
            return {key: raised(each) for key, each in value.items()}
        return (
            [raised(v) for v in value]
            if isinstance(value, list)
            else value.upper()
            if isinstance(value, str)
            else value
        )

    assert json.loads(after) == raised(json.loads(before))


def check_arb(before: bytes, after: bytes) -> None:
    old, new = json.loads(before), json.loads(after)
    raised = {key: value if key.startswith("@") else value.upper() for key, value in old.items()}
    assert new == {**raised, "@@locale": "de"}


def properties(content: bytes) -> list[tuple[str, str]]:
    """Keys and values, as java.util.Properties reads lines: first logical lines, then each by its characters."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("iso-8859-1")
    entries, logical = [], ""
    for line in re.split(r"\r\n|\n|\r", text):
        line = line.lstrip(" \t\f")
        if not logical and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            logical += line[:-1]
            continue
        chars, both, logical = iter(logical + line), ["", ""], ""
        side, is_begun = 0, False
        for char in chars:
            is_escape = char == "\\"
            if is_escape:
                char = next(chars)
                char = chr(int("".join(next(chars) for _ in range(4)), 16)) if char == "u" else char
                char = {"n": "\n", "t": "\t"}.get(char, char)
            elif not side and char in "=: \t\f":
                side, is_begun = 1, char in "=:"
                continue
            elif side and not both[1] and (char in " \t\f" or (char in "=:" and not is_begun)):
                is_begun = is_begun or char in "=:"
                continue
            both[side] += char
        entries.append((both[0], both[1].encode("utf-16", "surrogatepass").decode("utf-16")))
    return entries


def check_properties(before: bytes, after: bytes) -> None:
    assert properties(after) == [(key, value.upper()) for key, value in properties(before)]
    comments = re.compile(rb"(?m)(?<!\\\n)^[ \t]*[#!].*$")  # no line that continues a value
    assert comments.findall(after) == comments.findall(before)


def android_text(element) -> str:
    """The text of a resource, as aapt reads it: white space outside of quotes is one space, and escapes are none."""
    written = "".join(element.itertext())
    text, is_quoted, chars = "", False, iter(written.strip())
    for char in chars:
        if char == '"':
            is_quoted = not is_quoted
        elif char == "\\":
            char = next(chars)
            char = chr(int("".join(next(chars) for _ in range(4)), 16)) if char == "u" else char
            text += {"n": "\n"}.get(char, char)
        elif is_quoted or not char.isspace():
            text += char
        elif not text.endswith(" "):
            text += " "
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


KEPT_OPEN, KEPT_CLOSE = "\ue000\ue001"
HTML_TAG = re.compile(r"</?(?:[abipuq]|br|div|em|font|h\d|hr|img|li|ol|small|span|strong|su[bp]|tt|ul)\b[^<>]*>", re.I)


def android_pieces(element) -> list[str]:
    """The text of a resource, and at odd indices what is kept: xliff:g and tags of HTML."""
    kept = [each for each in element.iter("{*}g") if not any(True for _ in each.iterancestors("{*}g"))]
    for each in kept:
        each.text, each.tail = f"{KEPT_OPEN}{''.join(each.itertext())}{KEPT_CLOSE}", each.tail
        del each[:]
    text = HTML_TAG.sub(rf"{KEPT_OPEN}\g<0>{KEPT_CLOSE}", android_text(element))
    return re.split(f"[{KEPT_OPEN}{KEPT_CLOSE}]", text)


def raised_pieces(pieces: list[str]) -> list[str]:
    """The pieces with their text raised, white space squeezed."""
    return [squeezed(piece if i % 2 else piece.upper()) for i, piece in enumerate(pieces)]


def check_android(before: bytes, after: bytes) -> None:
    etree = pytest.importorskip("lxml.etree")
    old, new = (etree.fromstring(each) for each in (before, after))
    for a, b in zip(old.iter("{*}*"), new.iter("{*}*"), strict=True):
        assert (a.tag, a.attrib) == (b.tag, b.attrib)
    for tag in ("string", "item"):
        for a, b in zip(old.iter(tag), new.iter(tag), strict=True):
            around = [a, *a.iterancestors()]
            is_kept = any(each.get("translatable") == "false" for each in around) or re.match(
                r"[@?][\w.:+/-]+$", "".join(a.itertext()).strip()
            )
            is_text = tag == "string" or around[1].tag in ("string-array", "plurals")
            old_text, new_text = android_text(a), android_text(b)
            if is_kept or not is_text:
                assert old_text == new_text
                continue
            assert ("  " in new_text) == ("  " in old_text)
            assert raised_pieces(android_pieces(a)) == [squeezed(each) for each in android_pieces(b)]


def check_resx(before: bytes, after: bytes) -> None:
    etree = pytest.importorskip("lxml.etree")
    old, new = (etree.fromstring(each) for each in (before, after))
    for a, b in zip(old.iter(), new.iter(), strict=True):
        assert (a.tag, a.attrib) == (b.tag, b.attrib)
        data = a.getparent()
        is_text = a.tag == "value" and data.tag == "data" and not data.get("type") and not data.get("mimetype")
        if is_text and not data.get("name").startswith(">>"):
            pieces = [re.split(f"({HTML_TAG.pattern})", each.text or "") for each in (a, b)]
            assert raised_pieces(pieces[0]) == [squeezed(each) for each in pieces[1]]
        else:
            assert b.text == a.text


def check_ass(before: bytes, after: bytes) -> None:
    pysubs2 = pytest.importorskip("pysubs2")
    old, new = (pysubs2.SSAFile.from_string(each.decode(), format_="ass") for each in (before, after))
    for a, b in zip(old, new, strict=True):
        assert (a.start, a.end, a.type, a.name, a.style) == (b.start, b.end, b.type, b.name, b.style)
        codes = re.compile(r"\{[^}]*\}|\\[Nh]")
        assert codes.findall(a.text) == codes.findall(b.text)
        is_kept = a.is_comment or r"\p1" in a.text
        texts = [squeezed(codes.sub("", each.text)) for each in (a, b)]
        assert texts[1] == (texts[0] if is_kept else texts[0].upper())


def check_docx(before: bytes, after: bytes) -> None:
    import docx

    old, new = members(before), members(after)
    assert list(new) == list(old)
    assert {n: c for n, c in new.items() if not re.search("document|header", n)} == {
        n: c for n, c in old.items() if not re.search("document|header", n)
    }
    a, b = docx.Document(io.BytesIO(before)), docx.Document(io.BytesIO(after))
    assert [p.text for p in b.paragraphs] == [p.text.upper() for p in a.paragraphs]
    assert [[r.bold for r in p.runs] for p in b.paragraphs] == [[r.bold for r in p.runs] for p in a.paragraphs]
    assert b.sections[0].header.paragraphs[0].text == a.sections[0].header.paragraphs[0].text.upper()
    assert b.tables[0].cell(0, 1).text == a.tables[0].cell(0, 1).text.upper()


def check_zipped(before: bytes, after: bytes) -> None:
    """Members without text stay to the byte; of the others the texts outside of what is kept are raised."""
    etree = pytest.importorskip("lxml.etree")
    old, new = members(before), members(after)
    assert list(new) == list(old)
    headers = set(re.findall(r'<tableColumn [^>]*name="([^"]*)"', "".join(each.decode() for each in old.values())))
    with_text = [name for name in old if TEXT_MEMBER.search(name)]
    assert {name: new[name] for name in old if name not in with_text} == {
        name: old[name] for name in old if name not in with_text
    }
    for name in with_text:
        if name.endswith(".xhtml"):
            check_html(old[name], new[name])
            continue
        (tags, kept, text), (new_tags, new_kept, new_text) = (
            parts_of(etree.fromstring(each[name]), headers) for each in (old, new)
        )
        assert (new_tags, new_kept) == (tags, kept)
        assert squeezed(new_text) == squeezed(text.upper())


def parts_of(root, headers: set[str]) -> tuple[list[object], list[str], str]:
    """Tags with their attributes, texts that are kept, and all other text."""
    tags, kept, text = [], [], ""
    for each in root.iter("{*}*"):
        tags.append((each.tag, {name: value for name, value in each.attrib.items() if not name.endswith("space")}))
        names = [around.tag.rpartition("}")[2] for around in (each, *each.iterancestors())]
        if {"fld", "rPh", "f"} & {*names} or each.text in headers:
            kept.append(each.text or "")
        else:
            text += each.text or ""
        text += each.tail or ""
    return tags, kept, text


CHECKS = {"html": check_html, "md": check_md, "srt": check_subtitles, "vtt": check_subtitles, "po": check_po}
CHECKS |= {"xlf": check_xml, "tmx": check_xml, "csv": check_csv, "json": check_json, "docx": check_docx}
CHECKS |= {"arb": check_arb, "properties": check_properties, "strings.xml": check_android, "resx": check_resx}
CHECKS |= {"ass": check_ass, **dict.fromkeys(ZIPPED, check_zipped)}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_text_changes(suffix: str, seed: int, tmp_path: Path) -> None:
    if suffix == "docx":
        pytest.importorskip("docx")
    source, output = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    before = Writer(seed).document(suffix)
    source.write_bytes(before)
    translate(source, output)
    assert source.read_bytes() == before
    CHECKS[suffix](before, output.read_bytes())


@pytest.mark.parametrize("suffix", [*IN_PLACE, "docx", *ZIPPED])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_translation_that_is_the_source_gives_the_file_back(suffix: str, seed: int, tmp_path: Path) -> None:
    if suffix == "docx":
        pytest.importorskip("docx")
    source, output = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    source.write_bytes(Writer(seed).document(suffix))
    translate(source, output, same)
    read = members if suffix in ("docx", *ZIPPED) else bytes
    assert read(output.read_bytes()) == read(source.read_bytes())
