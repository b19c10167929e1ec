"""Word documents of other writers: other names of the main part, other prefixes; and documents without a text."""

from __future__ import annotations

import html
import io
import random
import re
import zipfile
from pathlib import Path

import docx
import pytest

from mtkit.errors import DataError
from tests.toy.sampling import seeds
from tests.unit.documents.generated import SPREADSHEET, Writer, members, office_types, translate, zipped

SEEDS = seeds(20, 220)


def changed(seed: int) -> bytes:
    """A document of python-docx with another name of its main part, another prefix of the namespace, CDATA sections."""
    rng = random.Random(seed)
    contents = members(Writer(seed).make_docx())

    def section(match: re.Match[bytes]) -> bytes:
        text = html.unescape(match[2].decode())
        return f"{match[1].decode()}<![CDATA[{text}]]>".encode() if rng.random() < 0.3 else match[0]

    main, prefix = rng.choice(["document", "document2", "Main"]), rng.choice(["w", "ns0", "x.y-1"])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            text = content
            if name == "word/document.xml":
                text = re.sub(rb"(<w:t(?: [^<>]*)?>)([^<]*)(?=</w:t>)", section, text)
                text = re.sub(rb"(</?|\s)w:", rf"\g<1>{prefix}:".encode(), text).replace(
                    b"xmlns:w=", f"xmlns:{prefix}=".encode()
                )
            if name.endswith((".rels", "[Content_Types].xml")):
                text = text.replace(b"document.xml", f"{main}.xml".encode())
            archive.writestr(
                name.replace("word/document.xml", f"word/{main}.xml").replace("document.xml.rels", f"{main}.xml.rels"),
                text,
            )
    return file.getvalue()


def texts(path: Path) -> list[str]:
    document = docx.Document(str(path))
    cells = [cell.text for table in document.tables for row in table.rows for cell in row.cells]
    headers = [paragraph.text for paragraph in document.sections[0].header.paragraphs]
    return [*(paragraph.text for paragraph in document.paragraphs), *cells, *headers]


@pytest.mark.parametrize("seed", SEEDS)
def test_other_names_and_prefixes(seed: int, tmp_path: Path) -> None:
    source, output = tmp_path / "a.docx", tmp_path / "b.docx"
    source.write_bytes(changed(seed))
    assert translate(source, output).units
    before, after = (["".join(each.split()) for each in texts(path)] for path in (source, output))
    assert [each.upper() for each in after] == [each.upper() for each in before]
    assert all(each == each.upper() for each in after if each != "<hello>")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.html", "<html><body><pre>only code</pre></body></html>"),
        ("a.tmx", '<tmx><body><tu><tuv xml:lang="fr"><seg>un chien</seg></tuv></tu></body></tmx>'),
        ("a.xlf", "<xliff version='9'><text>a dog</text></xliff>"),
    ],
)
def test_letters_without_a_text_are_no_success(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match="has letters, but no text in a place that is translated"):
        translate(tmp_path / name, tmp_path / f"out-{name}")
    assert not (tmp_path / f"out-{name}").exists()


def test_a_word_document_of_another_namespace(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("word/document.xml", '<w:document xmlns:w="http://x"><w:q>a dog</w:q></w:document>')
    with pytest.raises(DataError, match="has letters"):
        translate(tmp_path / "a.docx", tmp_path / "b.docx")


@pytest.mark.parametrize(
    "cells",
    [
        '<c r="A1"><f>SUM(B1:B9)</f><v>3</v></c>',
        '<c r="A1"><f t="shared" si="0"/><v>3</v></c><c r="B1"><f>LEN("dog")</f><v>3</v></c>',
        '<c r="A1" t="str"><f>A2</f><v>dog</v></c>',
    ],
)
def test_a_spreadsheet_of_numbers_and_formulas_is_copied(cells: str, tmp_path: Path) -> None:
    sheet = f"<sheetData><row>{cells}</row></sheetData><headerFooter><oddHeader>&amp;C&amp;A</oddHeader></headerFooter>"
    content = zipped(
        {
            "[Content_Types].xml": office_types({"xl/sheet.xml": "spreadsheetml.worksheet"}),
            "xl/sheet.xml": f'<worksheet xmlns="{SPREADSHEET}">{sheet}</worksheet>',
        }
    )
    (tmp_path / "a.xlsx").write_bytes(content)
    report = translate(tmp_path / "a.xlsx", tmp_path / "b.xlsx")
    assert report.sentence() == "0 texts translated; there is none in a place that is translated"
    assert members((tmp_path / "b.xlsx").read_bytes()) == members(content)


def test_no_text_of_other_formats_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("the,header\n")
    report = translate(tmp_path / "a.csv", tmp_path / "b.csv")
    assert report.sentence() == "0 texts translated; there is none in a place that is translated"


@pytest.mark.parametrize("seed", SEEDS)
def test_hyphens_that_are_elements_are_characters_of_the_text(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    hyphen = rng.choice(["<w:noBreakHyphen/>", "<w:noBreakHyphen></w:noBreakHyphen>"])
    words = ["-".join(rng.choices(["dog", "man", "old"], k=rng.randint(1, 3))) for _ in range(rng.randint(2, 6))]
    text = " ".join(["a-b", *words])
    raw = text.replace("-", rng.choice([f"</w:t>{hyphen}<w:t>", f"</w:t></w:r><w:r>{hyphen}</w:r><w:r><w:t>"]))
    body = f"<w:body><w:p><w:r><w:t>{raw}</w:t></w:r></w:p></w:body>"
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{namespace}">{body}</w:document>')
    translate(tmp_path / "a.docx", tmp_path / "b.docx")
    after = zipfile.ZipFile(tmp_path / "b.docx").read("word/document.xml").decode()
    assert re.sub("<[^>]*>", "", re.sub("<w:noBreakHyphen/?>", "\u2011", after)) == text.upper().replace("-", "\u2011")
