"""PO files as other programs write them: escapes of bytes, no blank lines between entries, a byte order mark."""

from __future__ import annotations

import codecs
import random
import subprocess
from pathlib import Path
from shutil import which

import pytest

from mtkit.documents.pairs import read_pairs
from mtkit.errors import DataError
from tests.toy.sampling import seeds
from tests.unit.documents.generated import Writer, translate

SEEDS = seeds(20, 200)
HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\n"\n\n'
TEXTS = {
    "UTF-8": ["Café dog", "日本語", "a\\b", 'say "x"', "tab\there", "7 Gänse", "ü1é2", "line\nnext"],
    "ISO-8859-1": ["Café dog", "7 Gänse", "ü1é2", "a\\b"],
    "KOI8-R": ["Привет 1", "мир", "a\\b"],
    "EUC-JP": ["日本語", "犬 1", "a"],
}


def escaped(text: str, encoding: str, rng: random.Random) -> str:
    """A text as strings of PO, some of whose bytes are escaped."""
    written = ""
    for char in text:
        plain = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}.get(char, char)
        if char.isascii() and rng.random() < 0.8:
            written += plain
        elif rng.random() < 0.7:
            written += "".join(f"\\{byte:03o}" for byte in char.encode(encoding))
        else:
            written += plain
        written += rng.choice(["", "", "", "", '"\n"'])
    return f'"{written}"'


@pytest.mark.parametrize("seed", SEEDS)
def test_escapes_are_bytes_of_the_charset(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    encoding = rng.choice([*TEXTS])
    pairs = [(f"{n} {rng.choice(TEXTS[encoding])}", rng.choice(TEXTS[encoding])) for n in range(12)]
    entries = [f"msgid {escaped(src, encoding, rng)}\nmsgstr {escaped(tgt, encoding, rng)}\n" for src, tgt in pairs]
    path = tmp_path / "a.po"
    path.write_bytes((HEADER.format(encoding) + "\n".join(entries)).encode(encoding))
    assert [(src, tgt) for _, src, tgt in read_pairs(path, src_lang="en", tgt_lang="de")] == pairs
    if which("msgfmt") and which("msgunfmt"):
        subprocess.run(["msgfmt", "-o", tmp_path / "a.mo", path], check=True, capture_output=True)
        polib = pytest.importorskip("polib")
        assert {each.msgid: each.msgstr for each in polib.mofile(str(tmp_path / "a.mo"))} == dict(pairs)


def test_an_escape_that_is_not_of_the_charset_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_text(HEADER.format("UTF-8") + 'msgid "a"\nmsgstr ""\n\nmsgid "\\351t\\351"\nmsgstr ""\n')
    with pytest.raises(DataError, match=r"a\.po:7: an escape of bytes that are not UTF-8"):
        translate(path, tmp_path / "b.po")


@pytest.mark.parametrize("seed", SEEDS)
def test_blank_lines_between_entries_do_not_matter(seed: int, tmp_path: Path) -> None:
    """Without them, with more of them, with CRLF and with a byte order mark: the same messages are translated."""
    rng = random.Random(seed)
    content = Writer(seed).document("po").decode()
    source, output = tmp_path / "a.po", tmp_path / "b.po"
    source.write_text(content, encoding="utf-8")
    expected = translate(source, output).units, squeezed(output.read_bytes())
    blank = rng.choice(["", "\n", "\n \n\n"])
    content = content.replace("\n\n", f"\n{blank}")
    if rng.random() < 0.5:
        content = content.replace("\n", "\r\n")
    mark = codecs.BOM_UTF8 if rng.random() < 0.5 else b""
    source.write_bytes(mark + content.encode())
    assert (translate(source, output).units, squeezed(output.read_bytes().removeprefix(mark))) == expected
    assert output.read_bytes().startswith(mark)


def squeezed(content: bytes) -> list[bytes]:
    return [line.strip() for line in content.split(b"\n") if line.strip()]


def test_an_obsolete_fuzzy_message_is_no_flag_of_the_next(tmp_path: Path) -> None:
    source, output = tmp_path / "a.po", tmp_path / "b.po"
    source.write_text('#, fuzzy\n#~ msgid "old"\n#~ msgstr "alt"\nmsgid "new"\nmsgstr ""\n#~ msgid "x"\n#~ msgstr ""\n')
    assert translate(source, output).units == 1
    assert '#, fuzzy\nmsgid "new"\nmsgstr "NEW"\n#~' in output.read_text()
    source.write_text('#, fuzzy\n#~ msgid "old"\n#~ msgstr "alt"\nmsgid "new"\nmsgstr "neu"\n')
    assert [tgt for _, _, tgt in read_pairs(source, src_lang="en", tgt_lang="de")] == ["neu"]
