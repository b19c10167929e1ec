"""Documents through the command: the text changes, all else stays, and machine translations are marked."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.models.transformer.config import TransformerConfig

HTML = '<!-- c --><p class="a">the <b>dog</b> sees</p>\n<pre>code stays</pre><p translate="no">name</p>\n'
DOCUMENTS = {
    "a.html": (
        HTML,
        [r"<!-- c --><p class=\"a\">.*<b>.*</b>.*</p>\n", r"<pre>code stays</pre><p translate=\"no\">name</p>\n"],
    ),
    "a.md": (
        "# the dog\n\n```\ncode\n```\n\n- a [cat](x.html)\n",
        ["^# .", r"\n\n```\ncode\n```\n\n- ", r"\]\(x.html\)"],
    ),
    "a.srt": ("1\n00:00:01,000 --> 00:00:02,000\nthe dog sees\n\n", [r"^1\n00:00:01,000 --> 00:00:02,000\n.+\n\n$"]),
    "a.vtt": (
        "WEBVTT\n\n00:01.000 --> 00:02.000 line:0\nthe dog\n",
        [r"^WEBVTT\n\n00:01.000 --> 00:02.000 line:0\n.+\n$"],
    ),
    "a.po": ('# by me\nmsgid "the dog"\nmsgstr ""\n', [r'^# by me\n#, fuzzy\nmsgid "the dog"\nmsgstr ".*"\n$']),
    "a.xlf": (
        '<xliff version="1.2"><file><trans-unit id="1"><source>the dog</source></trans-unit></file></xliff>',
        ["<source>the dog</source><target[^>]*needs-review-translation[^>]*>.*</target></trans-unit>"],
    ),
    "a.tmx": (
        '<tmx version="1.4"><body><tu><tuv xml:lang="en"><seg>the dog</seg></tuv></tu></body></tmx>',
        ['<seg>the dog</seg></tuv>.*creationid="MT!"', 'xml:lang="de"'],
    ),
    "a.csv": ("id,text\n7,the dog\n", ["^id,text\n7,.+\n$"]),
    "a.json": ('{"the dog": "the cat", "n": [1, true]}\n', [r'^\{"the dog": ".*", "n": \[1, true\]\}\n$']),
}


@pytest.fixture
def translate(toy_model: Callable[..., Path], tmp_path: Path) -> Callable[..., tuple[int, Path]]:
    """translate(path, *words) -> exit code and output."""
    config = TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1)
    model = toy_model(config)

    def run(path: Path, *words: str) -> tuple[int, Path]:
        output = tmp_path / f"out{path.suffix}"
        return entry.execute(["translate", str(model), str(path), "-o", str(output), *words]), output

    return run


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_keeps_its_shape(translate, tmp_path, name):
    content, expected = DOCUMENTS[name]
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    code, output = translate(path)
    assert code == 0
    text = output.read_text(encoding="utf-8")
    assert text != content
    assert [pattern for pattern in expected if not re.search(pattern, text, re.DOTALL)] == []
    assert path.read_text(encoding="utf-8") == content


def test_a_word_document_keeps_all_members_but_its_text(translate, tmp_path):
    xml = '<w:document xmlns:w="w"><w:body><w:p w:x="1"><w:r><w:t>the dog sees</w:t></w:r></w:p></w:body></w:document>'
    path = tmp_path / "a.docx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", xml)
        archive.writestr("word/styles.xml", "<s/>")
        archive.writestr("word/media/a.png", bytes(range(256)))
    code, output = translate(path)
    assert code == 0
    with zipfile.ZipFile(output) as archive:
        assert archive.namelist() == ["word/document.xml", "word/styles.xml", "word/media/a.png"]
        assert archive.read("word/media/a.png") == bytes(range(256))
        written = archive.read("word/document.xml").decode()
    assert written != xml
    assert re.fullmatch(r'<w:document xmlns:w="w"><w:body><w:p w:x="1">.*</w:p></w:body></w:document>', written)


def test_a_key_of_json_alone(translate, tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"t": "the dog", "id": "the cat"}')
    code, output = translate(path, "--field", "t")
    assert code == 0
    assert json.loads(output.read_text())["id"] == "the cat"
    assert json.loads(output.read_text())["t"] != "the dog"


def test_a_document_needs_an_output(toy_model, tmp_path, capsys):
    path = tmp_path / "a.html"
    path.write_text(HTML)
    config = TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1)
    assert entry.execute(["translate", str(toy_model(config)), str(path)]) == 2
    assert "-o" in capsys.readouterr().err


def test_a_document_of_another_type_than_its_name(translate, tmp_path, capsys):
    path = tmp_path / "a.docx"
    path.write_text(HTML)
    code, output = translate(path)
    assert code == 65
    assert str(path) in capsys.readouterr().err
    assert not output.exists()
    assert path.read_text() == HTML


def test_a_structured_file_of_another_suffix_is_refused_with_the_way_round(translate, tmp_path, capsys, monkeypatch):
    path = tmp_path / "config.xml"
    path.write_text('<resources><string name="a">the dog</string></resources>\n')
    code, output = translate(path)
    error = capsys.readouterr().err
    assert code == 2
    assert not output.exists()
    assert ".xml is no format that is translated; documents end with .arb, .ass, " in error
    assert f"give - < {path}" in error
    (tmp_path / "a.en").write_text("the dog\n")
    assert translate(tmp_path / "a.en")[0] == 0
    (tmp_path / "a.jsonl").write_text('{"text": "the dog"}\n')
    assert translate(tmp_path / "a.jsonl")[0] == 2
    assert translate(tmp_path / "a.jsonl", "--jsonl-input")[0] == 0
    (tmp_path / "a.en").write_bytes(b"caf\xe9\n")
    assert translate(tmp_path / "a.en")[0] == 65  # no guess
    assert translate(tmp_path / "a.en", "--encoding", "latin1")[0] == 2
    assert "convert it: iconv -f latin1 -t utf-8" in capsys.readouterr().err


def test_subtitles_of_another_encoding(translate, tmp_path, capsys):
    path = tmp_path / "a.srt"
    path.write_bytes("1\n00:00:01,000 --> 00:00:02,000\nthe dog – says\n\n".encode("cp1252"))
    assert translate(path)[0] == 0
    assert f"{path}: not UTF-8, and read as windows-1252, which is a guess" in capsys.readouterr().err
    assert translate(path, "--encoding", "cp1252")[0] == 0
    assert translate(path, "--quiet")[0] == 0
    assert "guess" not in capsys.readouterr().err
    assert translate(path, "--encoding", "nosuch")[0] == 2
    assert "--encoding nosuch: unknown" in capsys.readouterr().err


def test_flagged_texts_have_their_place_in_the_file(translate, tmp_path, capsys):
    """No hint to --flags, which is an option of lines."""
    path = tmp_path / "a.html"
    path.write_text("<p>the dog</p>\n\n<p>the \u4e00 cat</p>\n", encoding="utf-8")
    assert translate(path)[0] == 0
    error = capsys.readouterr().err
    assert "of 2 texts are flagged: " in error
    assert f"1 with characters that the vocabulary lacks ({path}:3)" in error
    assert "--flags" not in error
    assert "line" not in error.replace(str(path), "")
    assert translate(path, "--quiet")[0] == 0
    assert capsys.readouterr().err == ""
