"""Blocks of a page of results: well-formed, and hostile text stays text."""

from __future__ import annotations

import base64
import math
import random
import re
import struct
import zlib
from html.parser import HTMLParser

import pytest

from mtkit.display import Table
from mtkit.plot.page import (
    MAX_ROWS,
    Curve,
    Picture,
    curves,
    details,
    heading,
    heat_map,
    line_of_text,
    outline,
    page,
    paragraph,
    preformatted,
    table,
    ticks,
    within,
)

HOSTILE = "</table><script>alert(1)</script>\"' onload=x \x1b]52;c;x\x07\u202e"


class Parser(HTMLParser):
    """Tags that are open, and the tags and attributes that were seen."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {tag, *(name for name, _ in attrs)}
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {tag, *(name for name, _ in attrs)}
        self.addresses += [value or "" for name, value in attrs if name == "href"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_well_formed_and_hostile_text_stays_text() -> None:
    content = Table([HOSTILE, "n"], [[HOSTILE, "1,234.5"]] * (MAX_ROWS + 3), text=(HOSTILE,), title=HOSTILE)
    blocks = [
        heading(HOSTILE),
        paragraph(HOSTILE, soft=True),
        outline([HOSTILE, f"  {HOSTILE}", f"      {HOSTILE}", HOSTILE]),
        table(content, bars=("n",)),
        line_of_text(HOSTILE, [(HOSTILE, [("", HOSTILE), ("del", HOSTILE), ("ins", "b")])]),
        preformatted(HOSTILE, HOSTILE),
        details(HOSTILE, [heat_map(HOSTILE, [HOSTILE, "b"], [HOSTILE], [[1.0], [-1.0]])]),
        curves(Picture(HOSTILE, [Curve(HOSTILE, [(1, 2), (2, math.nan)], [(1, 2, 3)])], HOSTILE, HOSTILE)),
    ]
    text = page(HOSTILE, blocks)
    parser = Parser()
    parser.feed(text)
    assert parser.open == []
    assert not {"script", "onload", "src", "link"} & parser.seen
    assert {address.partition(",")[0] for address in parser.addresses} == {"data:image/png;base64"}
    assert "\x1b" not in text
    assert "nan" not in text
    assert "3 more rows are not shown" in text


def test_outline_nests_by_indentation() -> None:
    nested = outline(["a", "  b", "  c", "d"]).strip()
    assert nested == "<ul><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ul>"
    assert outline([]).strip() == ""


@pytest.mark.parametrize("points", [[], [(1.0, math.inf)]])
def test_curves_without_points_are_a_sentence(points: list[tuple[float, float]]) -> None:
    assert "nothing to draw" in curves(Picture("Loss", [Curve("a", points)], "updates", "nats"))


def test_ticks_are_few_round_numbers_around_the_range() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        low = rng.uniform(-10, 10) * 10.0 ** rng.randrange(-6, 7)
        high = low if rng.random() < 0.1 else low + rng.random() * 10.0 ** rng.randrange(-3, 7)
        values = ticks(low, high)
        assert 2 <= len(values) <= 8
        rounding = 1e-6 * (values[-1] - values[0])
        assert values[0] - rounding <= low <= high <= values[-1] + rounding
        assert values == sorted(set(values))


def test_a_heat_map_is_dark_where_numbers_are_large() -> None:
    """The picture inside is decoded by hand: grey values, 0 is black."""
    values = [[0.0, 0.5, 1.0], [-3.0, 2.0, 0.25]]
    svg = heat_map("t", ["a", "b"], ["x", "y", "z"], values)
    content = base64.b64decode(re.search(r"base64,([^\"]+)", svg)[1])  # type: ignore[index]
    chunks, rest = {}, content[8:]
    while rest:
        length = struct.unpack(">I", rest[:4])[0]
        chunks[rest[4:8]] = rest[8 : 8 + length]
        assert struct.unpack(">I", rest[8 + length : 12 + length])[0] == zlib.crc32(rest[4 : 8 + length])
        rest = rest[12 + length :]
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (3, 2)
    rows = zlib.decompress(chunks[b"IDAT"])
    assert [*rows] == [0, 255, 255 - 64, 255 - 128, 0, 255, 0, 255 - 32]
    assert re.findall(r">(\w)</text>", svg) == ["a", "b", "x", "y", "z"]
    assert "<text" not in heat_map("t", ["a", "b"], ["x", "y", "z"], values, small=True)
    assert heat_map("t", [], ["x"], []) == ""


def test_blocks_beyond_the_size_are_counted() -> None:
    assert [*within(["abc", "defgh", "ij"], 6)][:2] == ["abc", "ij"]
    assert "1 pictures and tables" in [*within(["abc", "defgh", "ij"], 6)][2]
    assert [*within(["abc"], 3)] == ["abc"]
