"""Text for people: nothing that a terminal obeys, no line without end, nouns that agree, and tables."""

from __future__ import annotations

import random
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.display import MAX_LINE, Table, TableFormat, columns_of, count_of, printable
from tests.toy.sampling import sampled

OBEYED = [chr(code) for code in [*range(32), *range(0x7F, 0xA0)] if chr(code) not in "\t\n"]
DIRECTIONS = [chr(code) for code in range(0x110000) if unicodedata.bidirectional(chr(code)) in (
    "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"
)]  # fmt: skip


OTHERS = ["\u200e", "\u200f", "\u061c", "\u2028", "\U000e0041", "\ud800"]


@pytest.mark.parametrize("character", [*OBEYED, *DIRECTIONS, *OTHERS])
def test_each_is_an_escape(character) -> None:
    assert printable(f"a{character}b") == f"a{ascii(character)[1:-1]}b"


@given(st.text(st.characters(), max_size=60))
@settings(max_examples=300)
def test_any_text_is_printable_and_stays_readable(text) -> None:
    printed = printable(text)
    assert not any(unicodedata.category(each) == "Cc" for each in printed if each not in "\t\n")
    assert not set(printed) & {*DIRECTIONS, "\u2028", "\u2029"}
    printed.encode()  # no lone surrogate
    assert printable(printed) == printed
    harmless = [each for each in text if unicodedata.category(each)[0] in "LNPSM" or each in " \n\t\u200d\u200c"]
    assert [each for each in harmless if each not in printed] == []


@pytest.mark.parametrize("length", [MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, 30_000])
def test_long_lines_are_shortened_and_say_their_length(length) -> None:
    printed = printable(f"first\n{'x' * length}\nlast").split("\n")
    assert (printed[0], printed[2]) == ("first", "last")
    assert len(printed[1]) <= MAX_LINE + 40
    assert (f"({length:,} characters)" in printed[1]) == (length > MAX_LINE)


@pytest.mark.parametrize(("number", "text"), [(0, "0 pairs"), (1, "1 pair"), (1234, "1,234 pairs")])
def test_nouns_agree_with_their_count(number: int, text: str) -> None:
    assert count_of(number, "pair") == text


WORDS = ["system", "über", "runs/deep/folder/with/a/long/name/hyps.txt", "今天天气", "a|b", "x & y_z", "50%", "e\u0301"]


def random_table(rng: random.Random) -> Table:
    """Text and numbers in any order, with the intervals and thousands that mtkit prints."""
    columns = rng.randint(1, 9)
    text = [f"h{number}" for number in range(columns) if rng.random() < 0.4]
    headings = [f"h{number}" for number in range(columns)]
    rows = [
        [
            " ".join(rng.choices(WORDS, k=rng.randint(0, 6)))
            if heading in text
            else rng.choice(["", f"{rng.random() * 100:.2f} ± {rng.random():.2f}", f"{rng.randint(0, 10**7):,}"])
            for heading in headings
        ]
        for _ in range(rng.randint(0, 5))
    ]
    return Table(headings, rows, text=text, title=rng.choice([None, "title"]))


@pytest.mark.parametrize("width", [60, 80, 200, None])
@pytest.mark.parametrize("seed", range(sampled(60)))  # 240 tables
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


@pytest.mark.parametrize("seed", range(sampled(60)))
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
