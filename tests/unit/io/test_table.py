"""Tables at any width and in any form: every number is there, no line is wider than the terminal, fields are exact."""

from __future__ import annotations

import random
import re

import pytest

from mtkit.io.table import Table, TableFormat, columns_of

WORDS = ["system", "über", "runs/deep/folder/with/a/long/name/hyps.txt", "今天天气", "a|b", "x & y_z", "50%", "e\u0301"]


def random_table(rng: random.Random) -> Table:
    """Text and numbers in any order, with the intervals and thousands that mtkit prints."""
    columns = rng.randint(1, 9)
    text = [f"h{number}" for number in range(columns) if rng.random() < 0.4]
    headings = [f"h{number}" for number in range(columns)]
    rows = [
        [
            " ".join(rng.choices(WORDS, k=rng.randint(0, 6))) if heading in text
            else rng.choice(["", f"{rng.random() * 100:.2f} ± {rng.random():.2f}", f"{rng.randint(0, 10**7):,}"])
            for heading in headings
        ]
        for _ in range(rng.randint(0, 5))
    ]
    return Table(headings, rows, text=text, title=rng.choice([None, "title"]))


@pytest.mark.parametrize("width", [60, 80, 200, None])
@pytest.mark.parametrize("seed", range(60))  # 240 tables
def test_tables_fit_and_no_number_is_cut(seed, width) -> None:
    table = random_table(random.Random(seed))
    lines = list(table.lines(width))
    widest = max((columns_of(cell) for row in table.rows for cell in row), default=0)
    assert all(width is None or columns_of(line) <= max(width, widest + 4) for line in lines)
    printed = "\n".join(lines)
    for row in table.rows:
        for heading, cell in zip(table.headings, row, strict=True):
            if heading not in table.text:
                assert cell in printed
            else:  # folded at most
                assert re.sub(r"\s", "", cell) in re.sub(r"\s", "", printed) or len(table.headings) > 1
    letters = [re.sub(r"[\s─]", "", each) for each in ("".join(map("".join, table.rows)), printed)]
    assert all(letters[1].count(each) >= letters[0].count(each) for each in set(letters[0]))


@pytest.mark.parametrize("seed", range(60))
def test_the_other_forms_hold_every_cell(seed) -> None:
    table = random_table(random.Random(seed))
    size = len(table.rows) + 1
    tsv = [line.split("\t") for line in table.format(TableFormat.tsv)]
    assert tsv == [list(table.headings), *map(list, table.rows)]
    markdown = table.format(TableFormat.markdown)
    assert len(markdown) == size + 1
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in markdown]
    assert [[cell.replace("\\|", "|") for cell in row] for row in [cells[0], *cells[2:]]] == tsv
    latex = [line for line in table.format(TableFormat.latex) if r" \\" in line]
    assert [len(re.split(r"(?<!\\)&", line)) for line in latex] == [len(table.headings)] * size
    assert table.records() == [dict(zip(table.headings, row, strict=True)) for row in table.rows]


def test_a_narrow_terminal_gets_lists() -> None:
    table = Table(["name", "a", "b"], [["x", "12,345.67 ± 1.00", "99,999,999"], ["y", "", "1"]], text=["name"])
    assert list(table.lines(30)) == [
        "name  x", "a     12,345.67 ± 1.00", "b     99,999,999", "", "name  y", "b     1"
    ]  # fmt: skip


def test_text_is_folded_at_spaces_and_headings_of_numbers_too() -> None:
    table = Table(["claim", "p (bootstrap)"], [["a statement of some length", "0.0125"]], text=["claim"])
    assert list(table.lines(30)) == [
        "claim                        p",
        "                   (bootstrap)",
        "──────────────────────────────",
        "a statement of          0.0125",
        "some length",
    ]


def test_fields_of_tsv_have_neither_tabs_nor_line_breaks() -> None:
    table = Table(["name"], [["a\tb\nc"]], text=["name"])
    assert table.format(TableFormat.tsv) == ["name", r"a\tb\nc"]
    assert r"50\%\_\&" in "".join(Table(["x"], [["50%_&"]]).format(TableFormat.latex))
