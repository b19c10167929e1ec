"""Encodings of HTML pages: what a page declares holds for its translation too."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.errors import DataError
from tests.unit.documents.generated import Line, same, translate

CONTENT_TYPE = "<meta content='text/html; charset={}' http-equiv=Content-Type>"
DECLARATIONS = [
    ('<meta charset="{}">', "iso-8859-1", "cp1252"),
    ("<!DOCTYPE html><html><head><META CHARSET = {} >", "ISO-8859-1", "cp1252"),
    (f"<title>x</title>{CONTENT_TYPE}", "latin1", "cp1252"),
    (CONTENT_TYPE, "us-ascii", "cp1252"),
    ('<?xml version="1.0" encoding="{}"?>', "windows-1252", "cp1252"),
    ("<!-- <meta charset=utf-8> --><script>'<meta charset=utf-8>'</script><meta charset={}>", "x-cp1252", "cp1252"),
    ("<meta charset={}><meta charset=utf-8>", "iso-8859-15", "iso-8859-15"),
    ("<meta charset={}>", "iso-8859-9", "cp1254"),
    ("<meta charset={}>", "utf-8", "utf-8"),
    ("<meta charset={}>", "utf-16", "utf-8"),
    ("<meta name=a content='text/html; charset=iso-8859-1'><meta charset={}>", "UTF8", "utf-8"),
    ("<meta charset='{}'>", "{{ charset }}", "utf-8"),
    ("<body><meta charset='{}'>", "iso-8859-1", "utf-8"),
    ("{}", "", "utf-8"),
]


def upper(lines):
    return (Line(line.upper()) for line in lines)


def translated(content: bytes, tmp_path: Path, translator=upper, suffix: str = "html") -> bytes:
    source, output = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    source.write_bytes(content)
    translate(source, output, translator)
    return output.read_bytes()


@pytest.mark.parametrize("suffix", ["html", "HTM", "xhtml"])
@pytest.mark.parametrize(("declaration", "label", "encoding"), DECLARATIONS)
def test_a_page_keeps_its_encoding(declaration: str, label: str, encoding: str, suffix: str, tmp_path: Path) -> None:
    head = declaration.replace("{}", label)
    page = f"{head}<p>«Où est-il?» – 5 €</p>" if encoding != "iso-8859-15" else f"{head}<p>«Où est-il?» 5 €</p>"
    content = page.encode(encoding)
    assert translated(content, tmp_path, same, suffix) == content
    assert translated(content, tmp_path, suffix=suffix) == page.replace("Où est-il", "OÙ EST-IL").replace(
        "<title>x", "<title>X"
    ).encode(encoding)


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("shift_jis", "今日は①"),
        ("gb2312", "你好鎔"),
        ("euc-kr", "안녕똠"),
        ("big5", "你好"),
        ("koi8-r", "Привет"),
        ("tis-620", "สวัสดี"),
    ],
)
def test_encodings_of_other_scripts(label: str, text: str, tmp_path: Path) -> None:
    codec = {"shift_jis": "cp932", "gb2312": "gbk", "euc-kr": "cp949"}.get(label, label)
    content = f"<meta charset={label}><p>{text}</p>".encode(codec)
    assert translated(content, tmp_path, same) == content
    assert translated(content, tmp_path, lambda lines: (Line(f"{line} x") for line in lines)) == (
        f"<meta charset={label}><p>{text} x</p>".encode(codec)
    )


def test_characters_that_the_encoding_lacks_are_references(tmp_path: Path) -> None:
    page = b"<meta charset=iso-8859-1><p>a man &rarr; here</p>"
    expected = b"<meta charset=iso-8859-1><p>&#26085; \x84\xfc\x93 &#8594; &lt;</p>"
    assert translated(page, tmp_path, lambda lines: (Line("日 „ü“ → <") for _ in lines)) == expected


def test_utf8_under_another_declaration_stays_utf8(tmp_path: Path) -> None:
    """Its server may declare UTF-8; a page of ASCII alone is written as it declares."""
    page = "<meta charset=iso-8859-1><p>a “man”</p>"
    assert translated(page.encode(), tmp_path) == page.replace("a “man”", "A “MAN”").encode()
    page = "<meta charset=iso-8859-1><p>a man</p>"
    assert translated(page.encode(), tmp_path, lambda lines: (Line("für") for _ in lines)) == page.replace(
        "a man", "für"
    ).encode("latin-1")
    assert translated(b"<meta charset=latin1><p>caf\xe9", tmp_path) == b"<meta charset=latin1><p>CAF\xc9"


def test_a_byte_order_mark_takes_precedence(tmp_path: Path) -> None:
    for encoding in ("utf-8-sig", "utf-16"):
        content = "<meta charset=iso-8859-1><p>Où</p>".encode(encoding)
        assert translated(content, tmp_path) == "<meta charset=iso-8859-1><p>OÙ</p>".encode(encoding)


@pytest.mark.parametrize(
    "label", ["nosuch", "x-user-defined", "utf-7", "rot13", "unicode_escape", "raw_unicode_escape", "cp037", "idna"]
)
def test_unknown_encodings_are_refused(label: str, tmp_path: Path) -> None:
    source = tmp_path / "a.html"
    source.write_bytes(f"<meta charset={label}><p>a man</p>".encode())
    with pytest.raises(DataError) as caught:
        translate(source, tmp_path / "b.html")
    assert str(caught.value).startswith(f"{source}: the encoding {label} is unknown; convert the file to UTF-8, or")
    assert not (tmp_path / "b.html").exists()


def test_bytes_that_the_declared_encoding_lacks(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.html:2: a byte that is not windows-1252"):
        translated(b"<meta charset=iso-8859-1>\n<p>\xe9 \x81", tmp_path)
    with pytest.raises(DataError, match=r"a\.html:2: a byte that is not utf-8"):
        translated(b"<meta charset=utf-8>\n<p>\xe9", tmp_path)
