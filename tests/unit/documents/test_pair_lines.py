"""Lines of documents: extracted once, again after a change, by one of several processes; names of several files."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from xml.sax.saxutils import escape

import openpyxl
import pytest

from mtkit.documents import pair_lines
from mtkit.documents.pair_lines import RECORD, PairLines
from mtkit.errors import DataError, MissingInputError, MtkitError, UsageError
from mtkit.io.lock import OutputLock
from mtkit.pipeline.check_text import check_files
from mtkit.pipeline.clean_text import clean_files

LANGS = ("en", "de")
WORDS = ["Tür", "naïve", "a & b", "1 < 2", "日本", "x\u2028y", "\u00a0", "'", "e\u0301", "tab"]
ROWS = [("a", "A"), ("b  c", "B"), ("d", "D")]


def sample(seed: int, count: int = 40) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [
        (f"{n} {' '.join(rng.choices(WORDS, k=4))}.", f"{n} {' '.join(rng.choices(WORDS, k=3))}!") for n in range(count)
    ]


def tmx(rows: list[tuple[str, str]], langs: tuple[str, str] = LANGS) -> str:
    units = (
        "<tu>"
        + "".join(f'<tuv xml:lang="{lang}"><seg>{escape(t)}</seg></tuv>' for lang, t in zip(langs, row, strict=True))
        for row in rows
    )
    return f'<tmx version="1.4"><header/><body>{"".join(f"{unit}</tu>" + chr(10) for unit in units)}</body></tmx>'


def write(path: Path, rows: list[tuple[str, str]], encoding: str = "utf-8") -> Path:
    """A document of the format that its name ends with."""
    suffix = path.suffixes[0]
    if suffix == ".xlsx":
        book = openpyxl.Workbook()
        for row in [LANGS, *rows]:
            book.active.append(row)
        book.save(path)
        return path
    if suffix == ".tmx":
        text = f'<?xml version="1.0" encoding="{encoding}"?>\n{tmx(rows)}'
    elif suffix == ".jsonl":
        text = "".join(json.dumps(dict(zip(LANGS, row, strict=True))) + "\n" for row in rows)
    elif suffix == ".xlf":
        body = "".join(
            f'<trans-unit id="{n}"><source>{escape(s)}</source><target>{escape(t)}</target></trans-unit>\n'
            for n, (s, t) in enumerate(rows)
        )
        text = f'<xliff version="1.2"><file>{body}</file></xliff>'
    elif suffix == ".po":
        text = "".join(
            f"msgid {json.dumps(s, ensure_ascii=False)}\nmsgstr {json.dumps(t, ensure_ascii=False)}\n\n"
            for s, t in rows
        )
    else:
        with path.open("w", encoding=encoding, newline="") as file:
            if suffix == ".csv":
                csv.writer(file).writerows([LANGS, *rows])
            else:
                file.writelines("\t".join(row) + "\n" for row in [LANGS, *rows])
        return path
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read(lines: PairLines) -> list[tuple[str, str]]:
    src, tgt = (path.read_text(encoding="utf-8").split("\n")[:-1] for path in lines.files)
    return list(zip(src, tgt, strict=True))


@pytest.mark.parametrize("name", ["a.tmx", "a.tmx.gz", "a.tsv", "a.csv", "a.xlsx", "a.jsonl", "a.xlf", "a.po"])
def test_lines_of_each_format(tmp_path: Path, name: str) -> None:
    rows = sample(1)
    lines = PairLines(write(tmp_path / name, rows), LANGS)
    lines.extract()
    assert read(lines) == rows
    assert lines.given == [tmp_path / name]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, lines.folder.name])  # and no lock


def test_line_breaks_become_spaces_and_other_spaces_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    text = " one\r\n  two\u00a0! \n\n three\tfour\x85five "
    path.write_text(json.dumps({"en": text, "de": "x"}) + "\n")
    lines = PairLines(path, LANGS)
    lines.extract()
    assert read(lines) == [("one two\u00a0! three\tfour\x85five", "x")]


def test_lines_are_extracted_again_after_a_change_alone(tmp_path: Path) -> None:
    path, said = write(tmp_path / "a.tsv", ROWS), list[str]()
    lines = PairLines(path, LANGS)
    lines.extract(said.append)
    before = [(each.stat().st_ino, each.stat().st_mtime_ns) for each in lines.files]
    os.utime(path)  # touched, with the same content
    lines.extract(said.append)
    assert [(each.stat().st_ino, each.stat().st_mtime_ns) for each in lines.files] == before
    assert len(said) == 2
    write(path, ROWS[:2])
    lines.extract(said.append)
    assert "a.tsv: changed; its pairs are extracted ..." in said[2]
    assert read(lines) == ROWS[:2]


@pytest.mark.parametrize("damage", ["source.txt", "target.txt", RECORD])
@pytest.mark.parametrize("kind", ["changed", "missing"])
def test_damaged_lines_are_made_again(tmp_path: Path, damage: str, kind: str) -> None:
    lines = PairLines(write(tmp_path / "a.tsv", ROWS), LANGS)
    lines.extract()
    file = lines.folder / damage
    file.write_bytes(file.read_bytes().replace(b"a", b"b")) if kind == "changed" else file.unlink()
    if (damage, kind) == (RECORD, "missing"):  # whose files they are is not known
        with pytest.raises(UsageError, match="has files that mtkit did not write; name another folder"):
            lines.extract()
        return
    lines.extract()
    assert read(lines) == ROWS


def test_settings_have_folders_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", ROWS)
    names = [path, Path(f"{path}#en,de"), Path(f"{path}#de,en")]
    texts = [
        PairLines(name, langs, encoding)
        for name in names
        for langs in (LANGS, ("de", "en"))
        for encoding in (None, "cp1252")
    ]
    for each in texts:
        each.extract()
    assert len({each.folder for each in texts}) == len(texts)
    swapped = [(tgt, src) for src, tgt in ROWS]
    assert [read(each) for each in texts] == [
        swapped if (each.name == names[2] or (each.name == path and each.langs[0] == "de")) else ROWS for each in texts
    ]


def test_a_folder_that_is_moved_keeps_its_lines(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    lines = PairLines(write(tmp_path / "one" / "a.tsv", ROWS), LANGS)
    lines.extract()
    (tmp_path / "one").rename(tmp_path / "two")
    moved = PairLines(tmp_path / "two" / "a.tsv", LANGS)
    moved.extract(pytest.fail)  # nothing is extracted
    assert read(moved) == ROWS


def test_patterns_name_several_files_of_several_formats(tmp_path: Path) -> None:
    for folder, name in (("x", "a.tmx"), ("x", "b.csv"), ("y", "a.tmx")):
        (tmp_path / folder).mkdir(exist_ok=True)
        write(tmp_path / folder / name, [(f"{folder} {name} {src}", tgt) for src, tgt in ROWS])
    lines = PairLines(tmp_path / "*" / "*", LANGS)
    for _ in range(2):  # the folder of the lines is not among the files
        lines.extract()
        assert [src for src, _ in read(lines)] == [
            f"{each} {src}" for each in ("x a.tmx", "x b.csv", "y a.tmx") for src, _ in ROWS
        ]
    assert lines.folder.parent == tmp_path
    (tmp_path / "y" / "a.tmx").rename(tmp_path / "y" / "c.tmx")
    said: list[str] = []
    lines.extract(said.append)
    assert "changed" in said[0]
    with pytest.raises(MissingInputError, match="no file has a name of this pattern"):
        PairLines(tmp_path / "z*", LANGS).extract()


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_two_files_of_lines_by_the_beginning_of_their_names(tmp_path: Path, suffix: str) -> None:
    for lang in LANGS:
        (tmp_path / f"train.{lang}{suffix}").write_bytes(b"x\n")
    files = (tmp_path / f"train.en{suffix}", tmp_path / f"train.de{suffix}")
    for lines in (PairLines(tmp_path / "train", LANGS), PairLines(tmp_path / "train#en,de", ("fr", "it"))):
        lines.extract(pytest.fail)
        assert lines.files == files
        assert lines.given == [*files]
    for unknown in (PairLines(tmp_path / "train"), PairLines(tmp_path / "train", ("en", "fr"))):
        with pytest.raises(MissingInputError, match=r"train: no such file; if .*train\.de.* is a side of a text"):
            unknown.extract()


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("a.tmx", tmx(ROWS)[:150], DataError, "a.tmx:2: not well-formed XML"),
        ("a.tmx", '<!DOCTYPE x [<!ENTITY a "b">]>' + tmx(ROWS), DataError, "declares the entity a"),
        ("a.tmx", tmx(ROWS, ("en", "fr")), DataError, "a.tmx: no pair of en and de; check its languages"),
        ("a.tmx", "<xliff/>", DataError, "the outermost element is xliff, not tmx"),
        ("a.tsv#en,fr", "en\tde\na\tb\n", DataError, "the header has no column 'fr'; it has en, de"),
        ("a.tsv", "en\tde\n", DataError, "a.tsv: no pair of en and de"),
        ("a.jsonl", '{"en": "a"}\n', DataError, "a.jsonl:1: no object with the keys en and de"),
        ("a.jsonl", '{"en": "a", "de": 3}\n', DataError, "a.jsonl:1: de: 3 is no text"),
        ("a.docx", "x", UsageError, "a.docx: a document without pairs; give a source and its translation"),
        ("a.txt", "x", UsageError, "a.txt: one text; give a source and its translation"),
        ("none.tmx", None, MissingInputError, "none.tmx: no such file"),
    ],
)
def test_bad_documents_leave_nothing(
    tmp_path: Path, name: str, content: str | None, error: type[MtkitError], message: str
) -> None:
    if content is not None:
        (tmp_path / name.partition("#")[0]).write_text(content)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error) as caught:
        PairLines(tmp_path / name, LANGS).extract()
    assert message in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


def test_encodings(tmp_path: Path) -> None:
    rows = [("naïve café", "Tür für Größe")] * 50
    for name, encoding, stated in (
        ("a.tmx", "utf-16", None),
        ("b.tmx", "iso-8859-1", None),
        ("c.tsv", "cp1252", "cp1252"),
        ("d.tsv", "utf-8-sig", None),
    ):
        lines = PairLines(write(tmp_path / name, rows, encoding), LANGS, stated)
        lines.extract()
        assert read(lines) == rows
    said: list[str] = []
    guessed = PairLines(write(tmp_path / "e.tsv", rows, "cp1252"), LANGS)
    guessed.extract(said.append)
    assert any("which is a guess" in each for each in said)
    mixed = tmp_path / "f.tmx"
    mixed.write_bytes(tmx([("a", "A"), ("TEXT", "b")]).encode().replace(b"TEXT", b"caf\xe9"))
    with pytest.raises(DataError, match=r"f\.tmx:\d: a byte that is not utf-8"):
        PairLines(mixed, LANGS).extract()


def test_a_document_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.tsv", ROWS)
    lines, write_pairs = PairLines(path, LANGS), pair_lines.write_pairs

    def change(pairs: object, *files: Path) -> int:
        first = next(pairs)  # type: ignore[call-overload]
        path.write_text("other\ttext\n")
        return write_pairs([first, *pairs], *files)  # type: ignore[misc]

    monkeypatch.setattr(pair_lines, "write_pairs", change)
    with pytest.raises(DataError, match="changed while it was read"):
        lines.extract()
    assert [*tmp_path.iterdir()] == [path]


def test_files_of_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "source.txt").write_text("mine\n")
    with pytest.raises(UsageError, match="mine: has files that mtkit did not write"):
        PairLines(write(tmp_path / "a.tsv", ROWS), LANGS, None, folder).extract()
    assert (folder / "source.txt").read_text() == "mine\n"


def test_a_second_process_waits_and_does_not_extract(tmp_path: Path) -> None:
    lines, said = PairLines(write(tmp_path / "a.tsv", ROWS), LANGS), list[str]()
    with OutputLock(lines.folder):
        thread = threading.Thread(target=lines.extract, args=(said.append,))
        thread.start()
        limit = time.monotonic() + 10
        while not said and time.monotonic() < limit:
            time.sleep(0.01)
        lines._extract(lines._inputs(), lambda note: None)
    thread.join()
    (note,) = said
    assert "another process extracts its pairs; waiting" in note
    assert read(lines) == ROWS


@pytest.mark.whole
def test_processes_at_the_same_time(tmp_path: Path) -> None:
    rows = sample(2, 20_000)
    path = write(tmp_path / "a.tmx", rows)
    code = "import sys; from pathlib import Path; from mtkit.documents.pair_lines import PairLines\n"
    code += "PairLines(Path(sys.argv[1]), ('en', 'de')).extract(print)"
    processes = [subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) for _ in range(4)]
    outputs = [each.communicate()[0].decode() for each in processes]
    assert [each.returncode for each in processes] == [0] * 4
    assert sum("20,000 pairs in" in each for each in outputs) == 1
    lines = PairLines(path, LANGS)
    lines.extract(pytest.fail)
    assert read(lines) == rows


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["a.tmx", "a.tsv", "a.csv.gz", "a.csv", "a.xlsx", "a.jsonl", "a.xlf", "a.po"])
def test_pairs_with_one_empty_side_are_counted_wherever_a_document_is_read(
    tmp_path: Path, name: str, seed: int
) -> None:
    rng, rows = random.Random(seed), sample(seed)
    empty = sorted(rng.sample(range(len(rows)), 5))
    for row in empty:
        kept = rng.randrange(2) if name != "a.po" else 0  # PO has no message without a source
        rows[row] = (rows[row][0], "") if kept == 0 else ("", rows[row][1])
    path = write(tmp_path / name, rows)
    if name.endswith(".csv.gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    expected = [row for row in rows if all(row)]
    lines, said = PairLines(path, LANGS), list[str]()
    lines.extract(said.append)
    assert read(lines) == expected
    has_row_per_line = name not in ("a.tmx", "a.xlf", "a.po")
    first = f"{path}:{empty[0] + (1 if name == 'a.jsonl' else 2)}" if has_row_per_line else f"{path}:"
    assert f"{path}: 5 pairs with one empty side are left out; the first: {first}" in said[-1]
    lines.extract(said.append)  # and whenever the lines are used
    assert len(said) == 4
    assert said[-1] == said[-2]
    report = check_files([path], LANGS, [], pytest.fail)
    (finding,) = (each for each in report.findings if each.kind == "one_sided")
    assert (finding.count, finding.level, finding.places[0].startswith(first)) == (5, "warning", True)
    assert not any(each.kind == "empty" for each in report.findings)
    cleaned = clean_files([path, path], LANGS, [], tmp_path / "clean", pytest.fail)
    assert cleaned.as_json()["one_sided"] == {"count": 10, "first": finding.places[0]}
    assert sum("10 pairs with one empty side are left out" in line for line in cleaned.lines()) == 1
    assert cleaned.pairs == 2 * len(expected)


def test_a_row_without_the_cell_of_a_side_is_one_sided(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("en\tnote\tde\na\t\tA\n\nb\tx\nc\tx\t \n\t\t\n")
    said: list[str] = []
    PairLines(tmp_path / "a.tsv", LANGS).extract(said.append)
    assert "2 pairs with one empty side are left out; the first:" in said[-1]
    assert said[-1].endswith("a.tsv:4")
