"""XLIFF: what is not to be translated by the elements around it, and where the target language is stated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mtkit.documents.format import DocumentOptions
from mtkit.documents.formats import exchange
from mtkit.documents.formats.html import InlineXml
from mtkit.documents.pairs import read_pairs
from tests.unit.documents.generated import same, translate, upper

CORE = 'xmlns="urn:oasis:names:tc:xliff:document:2.0"'


def unit(text: str, version: str, more: str = "", target: str = "") -> str:
    content = f"<source>{text}</source>{target}"
    if version == "1.2":
        return f'<trans-unit id="{text}"{more}>{content}</trans-unit>'
    return f'<unit id="trans-unit {text}"{more}><segment>{content}</segment></unit>'


def group(content: str, translated: str) -> str:
    return f'<group translate="{translated}">\n{content}</group>\n'


def document(*files: str, version: str, more: str = "") -> str:
    return f'<?xml version="1.0"?>\n<xliff version="{version}"{more}>\n{"".join(files)}</xliff>\n'


def translated(folder: Path, content: str, translator=upper) -> str:
    source, output = folder / "a.xlf", folder / "b.xlf"
    source.write_text(content, encoding="utf-8")
    translate(source, output, translator)
    return output.read_text(encoding="utf-8")


def targets(text: str) -> list[str]:
    return re.findall("<target[^>]*>([^<]*)</target>", text)


@pytest.mark.parametrize("version", ["1.2", "2.0"])
def test_the_nearest_element_around_decides_what_is_translated(version: str, tmp_path: Path) -> None:
    def units(*texts: str, more: str = "") -> str:
        return "".join(unit(text, version, more) for text in texts)

    inner = units("b one", "b two") + group(units("c one", "c two") + units("d", more=' translate="no"'), "yes")
    decided = units("g", more=" translate='yes'") + units("h")
    first = ['<!-- <group translate="no"> -->', units("a"), "<group/>", group(inner + units("e"), "no"), units("f")]
    first += [group(decided, "no"), '<group translate="no"/>']
    second = [units("i"), "<group>", units("j"), "</group>", group(units("k"), "yes"), units("l")]
    files = [
        f"<file original='x'>{''.join(first)}</file>",
        f"<file original='y' translate='no'>{''.join(second)}</file>",
        f"<x:file original='z' xmlns:x='z'>{units('m')}</x:file>",
    ]
    text = translated(tmp_path, document(*files, version=version))
    assert targets(text) == ["A", "C ONE", "C TWO", "F", "G", "K", "M"]


def test_a_binary_unit_that_is_not_translated(tmp_path: Path) -> None:
    binary = f'<bin-unit translate="no">{unit("a", "1.2")}</bin-unit>{unit("b", "1.2")}'
    assert targets(translated(tmp_path, document(f"<file>{binary}</file>", version="1.2"))) == ["B"]


@pytest.mark.parametrize("version", ["1.2", "2.0"])
def test_pairs_that_are_not_translated_are_no_pairs(version: str, tmp_path: Path) -> None:
    pair = unit("one", version, target="<target>eins</target>")
    path = tmp_path / "a.xlf"
    path.write_text(document(f"<file>{group(pair, 'no')}{group(pair, 'yes')}</file>", version=version))
    assert [(src, tgt) for _, src, tgt in read_pairs(path, src_lang="en", tgt_lang="de")] == [("one", "eins")]


def test_targets_of_version_2_have_a_language(tmp_path: Path) -> None:
    """The tag is in another stretch than the first unit that is translated, and nothing else changes."""
    before = document(
        f"<file>\n{unit('12', '2.0')}\n{group(unit('name', '2.0'), 'no')}</file>\n",
        f"<file>{unit('a dog', '2.0')}{unit('a cat', '2.0')}</file>",
        version="2.0",
        more=f' {CORE} srcLang="en" ',
    )
    text = translated(tmp_path, before, same)
    assert text.count(f'{CORE} srcLang="en"  trgLang="de">') == 1
    assert targets(text) == ["a dog", "a cat"]
    for added in (' trgLang="de"', ' state="initial"', "<target>a dog</target>", "<target>a cat</target>"):
        assert added not in before
        text = text.replace(added, "")
    assert text == before


@pytest.mark.parametrize(
    "content",
    [
        document(f"<file>{unit('a', '2.0')}</file>", version="2.1", more=" trgLang='de-AT'"),
        document(f"<file target-language='fr'>{unit('a', '1.2')}</file>", version="1.2"),
        document(f"<file>{unit('a', '1.2')}</file>", version="", more=" trgLang='de'"),
    ],
)
def test_a_language_that_is_stated_stays(content: str, tmp_path: Path) -> None:
    text = translated(tmp_path, content)
    assert targets(text) == ["A"]
    assert re.findall("trgLang|target-language", text) == re.findall("trgLang|target-language", content)


@pytest.mark.parametrize("version", ["1.2", "2.0"])
def test_a_document_without_new_targets_is_the_same_to_the_byte(version: str, tmp_path: Path) -> None:
    done = unit("one", version, target="<target>eins</target>")
    content = document(f"<file>{unit('1', version)}{done}{group(unit('a', version), 'no')}</file>", version=version)
    assert translated(tmp_path, content) == content


def test_each_file_of_version_1_has_its_language(tmp_path: Path) -> None:
    done = unit("one", "1.2", target="<target>eins</target>")
    todo, number = unit("two", "1.2"), unit("3", "1.2")
    files = [
        f"<file id='a'>{number}{todo}{todo}</file>",
        f"<file id='b'>{number}</file>",
        f"<file id='c' >{number}{number}{todo}{done}</file>",
        f"<file id='d'>{done}{todo}</file>",  # whose targets have no language already
        "<file id='e'/>",
        f"<file id='f'>{todo}</file>",
    ]
    text = translated(tmp_path, document(*files, version="1.2"))
    assert re.findall("<file[^>]*>", text) == [
        "<file id='a' target-language=\"de\">",
        "<file id='b'>",
        "<file id='c'  target-language=\"de\">",
        "<file id='d'>",
        "<file id='e'/>",
        "<file id='f' target-language=\"de\">",
    ]


@pytest.mark.parametrize(("code", "stated"), [("zh_Hans", ["zh-Hans"]), ("pt-BR", ["pt-BR"]), ('a"b', []), ("", [])])
def test_a_language_is_written_as_its_code(code: str, stated: list[str]) -> None:
    content = document(f"<file>{unit('a dog', '2.0')}</file>", version="2.0")
    form = exchange.Xliff(DocumentOptions(tgt_lang=code))
    written = [text for each in form.stretches([content]) for unit in form.units(each) for _, text in unit.insertions]
    assert re.findall('trgLang="(.*)"', "".join(written)) == stated


def test_stretches_before_the_first_text_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units = [*(unit(str(number), "2.0") for number in range(100)), unit("a", "2.0"), unit("b", "2.0")]
    content = document(f"<file>{''.join(units)}</file>", version="2.0")
    lengths = [len(each) for each in exchange.Xliff(DocumentOptions(tgt_lang="de")).stretches([content])]
    assert len(lengths) == 3  # up to the first text, the second one, and the end
    monkeypatch.setattr(exchange, "MAX_STRETCH", 1000)
    lengths = [len(each) for each in exchange.Xliff(DocumentOptions(tgt_lang="de")).stretches([content])]
    assert max(lengths) < 1200
    text = translated(tmp_path, content)
    assert (targets(text), "trgLang" in text) == (["A", "B"], False)


def test_chunks_do_not_change_the_stretches() -> None:
    units = "".join(unit(f"text {number}", "2.0") for number in range(99))
    content = document(f"<file>{group(units, 'no')}</file>", version="2.0")
    whole = [*exchange.Xliff(DocumentOptions(tgt_lang="de")).stretches([content])]
    assert "".join(whole) == content
    chunks = (content[i : i + 7] for i in range(0, len(content), 7))
    assert [*exchange.Xliff(DocumentOptions(tgt_lang="de")).stretches(chunks)] == whole


@pytest.mark.parametrize(
    "code",
    [
        '<x id="LINE_BREAK" ctype="lb"/>',
        '<x id="1" ctype="lb" equiv-text="&lt;br/&gt;"/>',
        '<ph id="0" equiv="LINE_BREAK" type="fmt"/>',
        '<ph id="0" type="fmt" subType="xlf:lb"/>',
    ],
)
def test_a_line_break_separates_words(code: str, tmp_path: Path) -> None:
    (unit,) = InlineXml().units(f"The man{code}sees a dog.{code} Now{code}")
    assert unit.source.text == "The man sees a dog. Now"
    assert unit.source.text.index("sees") == unit.source.marks[0].offset
    text = f"The man{code}sees."
    for segments in ("", f'<seg-source><mrk mtype="seg" mid="1">{text}</mrk></seg-source>'):
        (tmp_path / "a.xlf").write_text(
            '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
            f'<trans-unit id="1"><source>{text}</source>{segments}</trans-unit></body></file></xliff>'
        )
        translate(tmp_path / "a.xlf", tmp_path / "b.xlf")
        assert f">THE MAN{code}SEES.<" in (tmp_path / "b.xlf").read_text()
