"""A page of results: one file of HTML without scripts or requests, made of a few kinds of blocks.

A block is a string of HTML, and every function here escapes the text that it is given. Colours are never alone: removed
words are struck through, added ones underlined, curves differ in their dashes, and bars stand behind their numbers.
"""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit import __version__
from mtkit.display import Table, printable

Marked = Sequence[tuple[str, str]]  # (tag, text): stretches of a line, in "del", "ins", "mark" or "" (no mark)
Points = Sequence[tuple[float, float]]
MAX_ROWS = 500  # of a table; with MAX_LINE characters of a text, a page stays below 2 MB
MAX_PAGE = 1_900_000  # characters of blocks whose number depends on a model
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_DASHES = ("", "7 3", "2 3", "9 3 2 3")
_COLOURS = 6
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 560, 300, 62, 12, 40  # of a curve's picture
_CELL, _MAX_NAME = 18, 16  # width of a heat map's cell, characters of a name beside it


def page(title: str, blocks: Iterable[str], *, reload_after: int | None = None) -> str:
    """The whole file. Its policy forbids the browser to load or to run anything.

    Args:
        reload_after: seconds after which the browser reads the file again; None: never.
    """
    reload = "" if reload_after is None else f'<meta http-equiv="refresh" content="{reload_after}">\n'
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{reload}<title>{text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{text(title)}</h1>\n{''.join(blocks)}</main>\n<footer>mtkit {__version__}</footer>\n"
        "</body>\n</html>\n"
    )


def text(content: str) -> str:
    """Text as HTML: nothing of it is markup, and control characters are visible."""
    return html.escape(printable(content))


def heading(content: str, level: int = 2) -> str:
    """A heading of a section (2) or of a part of it (3)."""
    return f"<h{level}>{text(content)}</h{level}>\n"


def paragraph(content: str, *, soft: bool = False) -> str:
    """A sentence or several; `soft`: a remark."""
    return f"<p{' class=soft' if soft else ''}>{text(content)}</p>\n"


def outline(lines: Iterable[str]) -> str:
    """A list of lines; those that are indented by two more spaces are a list below the line before."""
    blocks, depth = "", -1
    for line in lines:
        level = min((len(line) - len(line.lstrip(" "))) // 2, depth + 1)
        blocks += "<ul>" if level > depth else "</li></ul>" * (depth - level) + "</li>"
        blocks += f"<li>{text(line.strip())}"
        depth = level
    return f"{blocks}{'</li></ul>' * (depth + 1)}\n"


def table(content: Table, *, bars: Collection[str] = (), title: str | None = None) -> str:
    """A table.

    Args:
        bars: headings of columns whose numbers have bars, all on the scale from 0 to the largest of them.
        title: caption; None: that of the table.
    """
    name = content.title if title is None else title
    drawn = [heading in bars for heading in content.headings]
    largest = max((_number(c) for row in content.rows for c, each in zip(row, drawn, strict=True) if each), default=0.0)
    head = "".join(
        f'<th scope="col"{"" if heading in content.text else " class=n"}>{text(heading)}</th>'
        for heading in content.headings
    )
    body = ""
    for row in content.rows[:MAX_ROWS]:
        cells = ""
        for heading, cell, has_bar in zip(content.headings, row, drawn, strict=True):
            if has_bar:
                cells += (
                    f'<td class="n bar" style="--part:{100 * _number(cell) / (largest or 1):.1f}%">{text(cell)}</td>'
                )
            else:
                cells += f"<td{' dir=auto' if heading in content.text else ' class=n'}>{text(cell)}</td>"
        body += f"<tr>{cells}</tr>\n"
    label, left = text(name or " ".join(content.headings[:2])), len(content.rows) - MAX_ROWS
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>'
        f"{f'<caption>{text(name)}</caption>' if name else ''}<thead><tr>{head}</tr></thead>\n"
        f"<tbody>{body}</tbody></table></div>\n"
        f"{paragraph(f'{left:,} more rows are not shown', soft=True) if left > 0 else ''}"
    )


def _number(cell: str) -> float:
    """The number at the beginning of a cell; 0 for none."""
    try:
        return max(0.0, float(cell.lstrip("* ").split(" ")[0].replace(",", "")))
    except ValueError:
        return 0.0


def line_of_text(title: str, parts: Iterable[tuple[str, Marked]]) -> str:
    """A line of a text with what belongs to it: source, translation with marks, reference, each after its name."""
    entries = ""
    for name, marked in parts:
        stretches = (f"<{tag}>{text(part)}</{tag}>" if tag else text(part) for tag, part in marked)
        entries += f'<dt>{text(name)}</dt><dd dir="auto">{" ".join(stretches)}</dd>'
    return f'<div class="line"><b>{text(title)}</b><dl>{entries}</dl></div>\n'


def preformatted(content: str, name: str) -> str:
    """A text whose line breaks count, such as a recipe."""
    return (
        f'<pre tabindex="0" role="region" aria-label="{text(name)}">{html.escape(printable(content, 1 << 20))}</pre>\n'
    )


@dataclass(frozen=True)
class Curve:
    """Points of a curve; `band` has the lowest and highest value at each x, such as that of several seeds."""

    name: str
    points: Points
    band: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class Picture:
    """Curves over the axes `x` and `y`."""

    title: str
    curves: Sequence[Curve]
    x: str
    y: str


def curves(picture: Picture) -> str:
    """A picture of curves (SVG) with a legend. Points without a number are left out."""
    title, x, y = picture.title, picture.x, picture.y
    shown = [(each.name, [p for p in each.points if all(map(math.isfinite, p))], each.band) for each in picture.curves]
    xs = [p[0] for _, points, band in shown for p in (*points, *band)]
    ys = [value for _, points, band in shown for p in (*points, *band) for value in p[1:]]
    if not xs:
        return paragraph(f"{title}: nothing to draw", soft=True)
    x_ticks, y_ticks = ticks(min(xs), max(xs)), ticks(min(ys), max(ys))

    def place(point: tuple[float, float]) -> str:
        across = (point[0] - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        up = (point[1] - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return f"{_LEFT + across * (_WIDTH - _LEFT - 24):.1f},{_HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM):.1f}"

    drawn = ""
    for value in y_ticks:
        (left, height), right = place((x_ticks[0], value)).split(","), _WIDTH - 24
        drawn += f'<line class="grid" x1="{left}" x2="{right}" y1="{height}" y2="{height}"/>'
        drawn += f'<text x="{_LEFT - 7}" y="{height}" dy="4" text-anchor="end">{value:,.6g}</text>'
    for value in x_ticks:
        at = place((value, y_ticks[0])).split(",")[0]
        drawn += f'<text x="{at}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{value:,.6g}</text>'
    drawn += f'<text x="{(_WIDTH + _LEFT) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{text(x)}</text>'
    drawn += f'<text transform="translate(13 {_HEIGHT / 2 - 15}) rotate(-90)" text-anchor="middle">{text(y)}</text>'
    legend = ""
    for number, (name, points, band) in enumerate(shown):
        colour, dash = f"var(--c{number % _COLOURS})", _DASHES[number // _COLOURS % len(_DASHES)]
        style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash or "none"}"'
        if band:
            around = [(p[0], p[1]) for p in band] + [(p[0], p[2]) for p in reversed(band)]
            drawn += f'<polygon points="{" ".join(map(place, around))}" fill="{colour}" opacity=".18"/>'
        drawn += f'<polyline points="{" ".join(map(place, points))}" {style}/>'
        drawn += "".join(
            '<circle cx="{}" cy="{}" r="2.5" fill="{}"/>'.format(*place(p).split(","), colour)
            for p in (points if len(points) <= 40 else ())
        )
        key = f'<svg class="key" viewBox="0 0 26 10" aria-hidden="true"><path d="M0 5h26" {style}/></svg>'
        legend += f"<br>{key} {text(name)}"
    label = text(f"{title}: {y} by {x}, {', '.join(name for name, _, _ in shown)}")
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{drawn}</svg>'
        f"<figcaption>{text(title)}{legend}</figcaption></figure>\n"
    )


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]], *, small: bool = False
) -> str:
    """A picture of a matrix: the larger a number, the darker its cell, white for 0 and less.

    Fig. 3 of Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, has this form.

    Args:
        rows, columns: names of the rows, from above, and of the columns.
        values: a row of numbers for each name of a row.
        small: without names, as one of many.
    """
    if not rows or not columns:
        return ""
    largest = max(map(max, values))
    names = [[each if len(each) <= _MAX_NAME else f"{each[: _MAX_NAME - 1]}…" for each in of] for of in (rows, columns)]
    left, top = (0 if small else 8 + 8 * max(map(len, of)) for of in names)
    width, height = _CELL * len(columns), _CELL * len(rows)
    pixels = [[255 - round(255 * max(0.0, value) / (largest if largest > 0 else 1)) for value in row] for row in values]
    place = f'x="{left}" y="{top}" width="{width}" height="{height}"'
    drawn = f'<image {place} preserveAspectRatio="none" href="{_png(pixels)}"/>'
    drawn += f'<rect {place} fill="none" stroke="var(--line)"/>'
    for number, name in enumerate(() if small else names[0]):
        drawn += f'<text x="{left - 5}" y="{top + _CELL * (number + 0.5)}" dy="4" text-anchor="end">{text(name)}</text>'
    for number, name in enumerate(() if small else names[1]):
        place = f"translate({left + _CELL * (number + 0.5) + 4} {top - 5}) rotate(-90)"
        drawn += f'<text transform="{place}">{text(name)}</text>'
    size = f'viewBox="0 0 {left + width + 1} {top + height + 1}"'
    shown = f"width: {8 if small else (left + width) / 16:.1f}rem"
    return (
        f'<figure class="map"><svg {size} style="{shown}" role="img" aria-label="{text(title)}">{drawn}</svg>'
        f"<figcaption>{text(title)}</figcaption></figure>\n"
    )


def _png(pixels: Sequence[Sequence[int]]) -> str:
    """The address of a picture that holds it: rows of grey values from 0 (black) to 255."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(row) for row in pixels), 9)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def details(title: str, blocks: Iterable[str]) -> str:
    """Blocks that are shown when a reader opens them."""
    return f"<details><summary>{text(title)}</summary>\n{''.join(blocks)}</details>\n"


def within(blocks: Iterable[str], characters: int) -> Iterator[str]:
    """The blocks that fit into a number of characters, and a remark in the place of the others."""
    left_out = 0
    for block in blocks:
        characters -= len(block)
        if characters >= 0:
            yield block
        else:
            left_out += 1
            characters += len(block)
    if left_out:
        yield paragraph(f"{left_out} pictures and tables would make this page too large", soft=True)


def ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers at equal distances that enclose two numbers."""
    span = (high - low) or abs(high) or 1.0
    step = 10.0 ** math.floor(math.log10(span / 3))
    step *= next(each for each in (1, 2, 5, 10) if span / (step * each) <= 5)
    first = math.floor(low / step + 1e-9)
    last = max(first + 1, math.ceil(high / step - 1e-9))
    return [round(number * step, 12) for number in range(first, last + 1)]
