"""Documents and suggestions: results equal those of the command, and hostile files are refused."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from lxml import etree

from mtkit.documents.pairs import read_pairs
from tests.e2e.serve.conftest import ROOT, Server, running

FIELDS = {"source": "en", "target": "de"}
HTML = "<html><body><h1>the dog</h1><p>a <b>big</b> cat . A man .</p></body></html>"


def bomb() -> bytes:
    """A Word document whose text is 100 MB of zeros."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        with archive.open("word/document.xml", "w", force_zip64=True) as part:
            for _ in range(10):
                part.write(b"\0" * 10_000_000)
    return file.getvalue()


@pytest.mark.whole
def test_a_document_is_that_of_the_command(server: Server, models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(HTML)
    command = [sys.executable, "-m", "mtkit", "translate", str(models["en-de"]), str(tmp_path / "a.html")]
    subprocess.run([*command, "-o", str(tmp_path / "b.html")], check=True, cwd=ROOT, capture_output=True)
    response = server.client.post("/translate_file", data=FIELDS, files={"file": ("../../report.html", HTML)})
    url = response.json()["translatedFileUrl"]
    assert url.startswith(f"{server.url}/download_file/")
    download = server.client.get(url)
    assert download.text == (tmp_path / "b.html").read_text()
    assert 'filename="report.de.html"' in download.headers["content-disposition"]
    assert download.headers["content-type"] == "application/octet-stream"


def test_plain_text_is_a_document_of_the_server(server: Server) -> None:
    content = "the dog\r\n\r\n  a cat . A man .\n12"
    response = server.client.post("/translate_file", data=FIELDS, files={"file": ("notes.txt", content)})
    lines = server.client.get(response.json()["translatedFileUrl"]).content.decode().split("\n")
    assert (len(lines), lines[1], lines[3]) == (4, "\r", "12")
    assert lines[0] == server.translate(q="the dog").json()["translatedText"] + "\r"
    assert ".txt" in server.client.get("/frontend/settings").json()["supportedFilesFormat"]
    assert server.client.post("/translate_file", data=FIELDS, files={"file": ("a.xlsm", "x")}).status_code == 400


def test_a_glossary_in_a_form(server: Server) -> None:
    files = {"file": ("a.html", "<p>the dog</p>")}
    for glossary, status in (([["dog", "Kater"]], 200), ("[[", 400), ("[" * 5000, 400), ('{"dog": "x"}', 400)):
        text = glossary if isinstance(glossary, str) else json.dumps(glossary)
        response = server.client.post("/translate_file", data={**FIELDS, "glossary": text}, files=files)
        assert response.status_code == status, response.text
        if status == 200:
            assert "Kater" in server.client.get(response.json()["translatedFileUrl"]).text
        else:
            assert response.json()["error"].startswith("glossary: ")


@pytest.mark.whole
def test_progress(server: Server) -> None:
    lines = "".join(f"<p>the dog {number}</p>" for number in range(300))
    state = server.client.post("/documents", data=FIELDS, files={"file": ("a.html", lines)}).json()
    seen = []
    while not state["done"]:
        state = server.client.get(f"/documents/{state['id']}").json()
        seen.append(state["translated"])
        time.sleep(0.01)
    assert (state["lines"], state["translated"]) == (300, 300)
    assert seen == sorted(seen)
    assert server.client.get(f"/{state['path']}").text.count("<p>") == 300


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("a.exe", b"MZ", 400),
        ("", b"a", 400),
        ("a.docx", b"no zip", 400),
        ("a.docx", bomb, 400),
        ("a.xliff", b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><xliff>&e;</xliff>', 400),
        ("a.tmx", b'<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><tmx>&b;</tmx>', 400),
        ("a.tmx", b"<tmx><tu>", 400),
        ("a.json", b"[" * 100_000, 400),
        ("a.json", b"{", 400),
        ("a.po", b"\xff\xfe\x00", 400),
        ("a.srt", b"\xff\xff", 400),
    ],
    ids=map(str, range(11)),
)
def test_files_that_are_refused(server: Server, name: str, content: object, status: int) -> None:
    data = content() if callable(content) else content
    response = server.client.post("/translate_file", data=FIELDS, files={"file": (name, data)})
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    assert "/tmp" not in response.text
    assert ".de." not in response.text  # an error names the uploaded file, not its translation
    assert len(response.text) < 600
    assert server.translate(q="the dog").status_code == 200


def test_documents_that_are_not_there(server: Server) -> None:
    for path in ("/documents/nothing", "/download_file/nothing/a.html", "/download_file/..%2f..%2fetc/passwd"):
        assert server.client.get(path).status_code == 404
    assert server.client.post("/translate_file", data={**FIELDS, "file": "text"}).status_code == 400


@pytest.mark.whole
def test_files_that_are_too_long(models: dict[str, Path]) -> None:
    with running(str(models["en-de"]), "--max-file", "0.1") as server:
        files = {"file": ("a.html", b"x" * 300_000)}
        assert server.client.post("/translate_file", data=FIELDS, files=files).status_code == 413


@pytest.mark.whole
def test_suggestions(models: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "suggested.tmx"
    pairs = [("a <dog> & \x00 a cat", "ein Hund"), ("</seg>", "\u202e"), ("a", "b" * 2000)]
    for _ in range(2):
        with running(str(models["en-de"]), "--suggestions", str(file)) as server:
            for q, s in pairs:
                assert server.client.post("/suggest", json={"q": q, "s": s, **FIELDS}).json() == {"success": True}
            for wrong in ({"q": ""}, {"s": "x" * 2001}, {"target": "xx"}, {"q": ["a"]}):
                body = {"q": "a", "s": "b", **FIELDS, **wrong}
                assert server.client.post("/suggest", json=body).status_code == 400
            assert server.client.get("/frontend/settings").json()["suggestions"] is True
    etree.parse(file)
    read = [(src, tgt) for _, src, tgt in read_pairs(file, src_lang="en", tgt_lang="de")]
    assert read == [("a <dog> &  a cat", "ein Hund"), pairs[1], pairs[2]] * 2
