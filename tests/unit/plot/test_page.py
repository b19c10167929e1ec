"""Blocks of a page of results: well-formed, and hostile text stays text."""

from __future__ import annotations

import math
import random
from html.parser import HTMLParser

import pytest

from mtkit.display import Table
from mtkit.plot.page import (
    MAX_ROWS,
    Curve,
    curves,
    heading,
    line_of_text,
    outline,
    page,
    paragraph,
    preformatted,
    table,
    ticks,
)

HOSTILE = "</table><script>alert(1)</script>\"' onload=x \x1b]52;c;x\x07\u202e"


class Parser(HTMLParser):
    """Tags that are open, and the tags and attributes that were seen."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {tag, *(name for name, _ in attrs)}
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {tag, *(name for name, _ in attrs)}

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
        curves(HOSTILE, [Curve(HOSTILE, [(1, 2), (2, math.nan)], [(1, 2, 3)])], x=HOSTILE, y=HOSTILE),
    ]
    text = page(HOSTILE, blocks)
    parser = Parser()
    parser.feed(text)
    assert parser.open == []
    assert not {"script", "onload", "src", "href", "link"} & parser.seen
    assert "\x1b" not in text
    assert "nan" not in text
    assert "3 more rows are not shown" in text


def test_outline_nests_by_indentation() -> None:
    nested = outline(["a", "  b", "  c", "d"]).strip()
    assert nested == "<ul><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ul>"
    assert outline([]).strip() == ""


@pytest.mark.parametrize("points", [[], [(1.0, math.inf)]])
def test_curves_without_points_are_a_sentence(points: list[tuple[float, float]]) -> None:
    assert "nothing to draw" in curves("Loss", [Curve("a", points)], x="updates", y="nats")


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
