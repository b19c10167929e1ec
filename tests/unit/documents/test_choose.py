"""The table of formats, from which all lists follow, and the names of files that are read as lines."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest

from mtkit.documents import format as module
from mtkit.documents import formats
from mtkit.documents.format import format_of, format_table, is_document, require_plain_text, suffixes
from mtkit.documents.pairs import read_pairs
from mtkit.errors import UsageError
from mtkit.finetuning.texts import GivenText
from tests.toy.sampling import seeds
from tests.unit.documents.generated import same, translate

SEEDS = seeds(20, 200)
PLAIN = """
    input a.txt A.TXT train.de train.deu test_2016.en.gz newstest.2014.src file.hyp ref0 a.ref0 a.ref.1 a.bpe32k
    a.bpe.32000 a.tok.en eng_Latn.devtest a.eng_Latn a.zh-CN a.zh_Hans a.pt-BR a.sr-Latn-RS a.de-en a.kmr_Latn a.es-419
    a.snt a.hyp.beam5 a.out.part .hidden a.txt.xz a.mt a.text.zst de.v2.1
"""
STRUCTURED = """
    config.xml a.yaml a.yml a.strings a.resw a.rst a.tex a.svg a.ini a.toml a.php a.py a.js a.adoc a.ftl
    a.sub a.sbv a.mobi a.log a.sgm a.xml.gz a.html.gz a.json.xz a.jsonl a.pdf a.doc a.rtf a.fodt a.xlsm a.ods a.plist
"""
FORMAT = '''
"""A format of a test."""
from mtkit.documents.format import DocumentFormat
from mtkit.documents.unit import TextUnit
from mtkit.text.marked import Marked

class Memo(DocumentFormat):
    suffixes = (".memo",)
    has_pairs = has_fields = True

    def units(self, stretch):
        return [TextUnit(start=2, end=len(stretch), source=Marked(stretch[2:]))]

    def pairs(self, stretch, line):
        yield line, stretch[:1], stretch[2:]
'''


def no_languages() -> tuple[str, ...]:
    return ()


def test_names_of_text_files(tmp_path: Path) -> None:
    for name in PLAIN.split():
        (tmp_path / name).write_bytes(b"The dog sleeps.\n")
        require_plain_text(tmp_path / name, no_languages)
        assert not is_document(tmp_path / name)
    require_plain_text(tmp_path / "a.kmr", lambda: ("kmr", "en"))
    require_plain_text(Path("/dev/stdin"), no_languages)
    require_plain_text(Path("-"), no_languages)


@pytest.mark.parametrize("name", STRUCTURED.split())
def test_structured_files_are_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        require_plain_text(tmp_path / name, no_languages)
    assert str(caught.value).startswith(f"translate: {tmp_path / name}: ")
    assert f"- < {tmp_path / name}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not is_document(Path(name))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("a.pdf", "pdftotext"), ("a.rtf", "save it as .docx"), ("a.ods", "save it as .xlsx"), ("a.jsonl", "--jsonl-input"),
     ("a.srt.gz", "decompress the document, and give a.srt")],
)  # fmt: skip
def test_what_to_do_with_files_of_other_programs(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        require_plain_text(Path(name), no_languages)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_other_suffix_is_refused(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        suffix = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(4, 9)))
        if module._PLAIN.fullmatch(suffix) or f".{suffix}" in format_table():
            continue
        with pytest.raises(UsageError, match=rf"\.{suffix} is no format that is translated"):
            require_plain_text(Path(f"a.{suffix}{rng.choice(['', '.gz'])}"), no_languages)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.ts", '<?xml version="1.0"?>\n<!DOCTYPE TS>\n<TS version="2.1"></TS>'),
        ("a.ts", '\n<TS version="2.1"></TS>'),
        ("index.html.de", "\n<!doctype html>\n<p>x"),
        ("a.ara", '{\n  "@@locale": "en"\n}'),
        ("a.txt", '\ufeff<?xml version="1.0"?>\n<a/>'),
    ],
)
def test_names_of_languages_are_no_excuse(name: str, content: str, tmp_path: Path) -> None:
    """Qt and Flutter name their files as Tsonga and Arabic are named."""
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"no plain text by its content; .* - < "):
        require_plain_text(tmp_path / name, no_languages)


def test_no_format_is_plain_text_by_its_name() -> None:
    table = format_table()
    assert [each for each, form in table.items() if not form.is_plain and module._is_plain_name(Path(f"a{each}"))] == []
    assert [each for each in table if each != each.lower() or "." not in each] == []
    stated = [suffix for form in {*table.values()} for suffix in form.suffixes]
    assert len(stated) == len({*stated}) == len(table) >= 18


def test_a_new_format_is_one_module(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "memo_of_a_test.py").write_text(FORMAT)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    format_table.cache_clear()
    try:
        source, output = tmp_path / "a.memo", tmp_path / "b.memo"
        source.write_text("k=the dog")
        assert is_document(source)
        assert ".memo" in suffixes(lambda form: form.has_texts)
        translate(source, output, fields=["k"])
        assert output.read_text() == "k=THE DOG"
        assert [(src, tgt) for _, src, tgt in read_pairs(source, src_lang="a", tgt_lang="b")] == [("k", "the dog")]
        GivenText((source,)).check()
    finally:
        format_table.cache_clear()


def test_plain_text_keeps_its_line_ends(tmp_path: Path) -> None:
    source, output = tmp_path / "a.txt", tmp_path / "b.txt"
    for content in ("\ufeffa dog\r\n\r\n 12\r\n  a cat  \n\nx\ry", "a\n", "", "\r", "a\r"):
        source.write_bytes(content.encode())
        translate(source, output, same)
        assert output.read_bytes() == source.read_bytes()
        translate(source, output)
        assert output.read_bytes().decode() == content.upper()


def test_documents_of_an_unknown_name() -> None:
    with pytest.raises(UsageError, match=r"the names end with \.arb, \.ass, \.csv"):
        format_of(Path("a.xyz"), src_lang="en", tgt_lang="de")
