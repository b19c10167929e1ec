"""CSV as Python's csv module reads it: quotes inside cells, stated delimiters, all line ends."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import pytest

from mtkit.documents.pairs import read_pairs
from tests.toy.sampling import seeds
from tests.unit.documents.generated import same, translate

SEEDS = seeds(20, 200)
WORDS = ["a", '5" pipe', "b,c", "d;e", '"q"', 'x"', "two\nlines", "t\tq", "p|q", "12", "Où"]


def table(rng: random.Random) -> tuple[str, str, str]:
    """(text, delimiter, line that states it)"""
    delimiter, end = rng.choice(",;\t|"), rng.choice(["\n", "\r\n", "\r"])

    def cell() -> str:
        text = " ".join(rng.choices(WORDS, k=rng.randint(0, 3)))
        if rng.random() < 0.4:
            return '"' + text.replace('"', '""') + '"'
        plain = text.replace("\n", " ").translate(dict.fromkeys(map(ord, ",;\t|")))
        return f"k{plain}" if plain.startswith('"') else plain

    rows = [delimiter.join(cell() for _ in range(3)) for _ in range(rng.randint(1, 8))]
    header = delimiter.join(["id", rng.choice(["one", '"o\nne"', '1" two']), "two"])
    stated = f"sep={delimiter}{end}" if rng.random() < 0.5 else ""
    return stated + end.join([header, *rows]) + rng.choice(["", end]), delimiter, stated


def rows_of(text: str, delimiter: str, stated: str) -> list[list[str]]:
    assert text.startswith(stated)
    return list(csv.reader(io.StringIO(text.removeprefix(stated), newline=""), delimiter=delimiter))


@pytest.mark.parametrize("seed", SEEDS)
def test_cells_are_those_of_the_csv_module(seed: int, tmp_path: Path) -> None:
    text, delimiter, stated = table(random.Random(seed))
    source, output = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_bytes(text.encode())
    translate(source, output, same)
    assert output.read_bytes() == source.read_bytes()
    translate(source, output)
    before, after = (rows_of(each.read_bytes().decode(), delimiter, stated) for each in (source, output))
    assert after == [before[0], *([cell.upper() for cell in row] for row in before[1:])]
    read = [(src, tgt) for _, src, tgt in read_pairs(source, src_lang="en", tgt_lang="de")]
    assert read == [(row[0], row[1]) for row in before if len(row) > 1 and row[0].strip() and row[1].strip()]


def test_columns_below_a_line_that_states_the_delimiter(tmp_path: Path) -> None:
    source, output = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_bytes(b'\xef\xbb\xbfsep=;\r\nid;a, b, c;text\r\n7" x;y;the "dog" sees\r\n')
    translate(source, output, fields=["text"])
    assert output.read_bytes() == b'\xef\xbb\xbfsep=;\r\nid;a, b, c;text\r\n7" x;y;"THE ""DOG"" SEES"\r\n'


@pytest.mark.parametrize("seed", SEEDS)
def test_cells_beyond_the_header_are_text_or_counted(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    width = rng.randint(1, 3)
    delimiter = "," if width == 1 else rng.choice(",;")
    rows = [["dog"] * rng.randint(1, 5) for _ in range(rng.randint(1, 5))]
    gap = rng.choice(["", " "])
    lines = [delimiter.join(["a"] * width), *((delimiter + gap).join(row) for row in rows)]
    (tmp_path / "a.csv").write_text("".join(f"{line}\n" for line in lines))
    report = translate(tmp_path / "a.csv", tmp_path / "b.csv")
    with (tmp_path / "b.csv").open(newline="") as file:
        found = [*csv.reader(file, delimiter=delimiter)][1:]
    if width == 1 and gap:
        assert found == [[f"{delimiter} ".join(row).upper()] for row in rows]
        return
    assert [[cell.strip() for cell in row] for row in found] == [
        ["DOG" if index < width else "dog" for index in range(len(row))] for row in rows
    ]
    assert sum(report.left.values()) == sum(max(0, len(row) - width) for row in rows)
