"""Descriptions for people: one as a tree, two beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from mtkit.describe.describe import Description
from mtkit.describe.parts import Part

DIFFERS = "≠"


@dataclass(frozen=True)
class Row:
    """A part in the tree."""

    guide: str  # the branches before it
    part: Part

    @property
    def what(self) -> str:
        """Its class, and how many there are."""
        return f"{self.part.count} × {self.part.kind}" if self.part.count > 1 else self.part.kind


def rows(part: Part, guide: str = "", below: str = "") -> Iterator[Row]:
    """A part and all inside it, from the top."""
    yield Row(guide, part)
    for number, inner in enumerate(part.parts):
        last = number == len(part.parts) - 1
        yield from rows(inner, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))


def tree(found: Description) -> Table:
    """The parts of a model with what each holds, computes and keeps."""
    table = _table("part", "class", "weights", "parameters", "FLOP/token", "kept/token", numbers=3)
    for row in rows(found.model):
        _, flops, activations = row.part.figures
        table.add_row(
            _label(row),
            row.what,
            row.part.shape,
            _parameters(row.part),
            _blank(si(flops), flops),
            _blank(si(activations, "B"), activations),
        )
    return table


def summary(found: Description) -> list[tuple[str, str]]:
    """The figures of the whole model, each with its name."""
    cost, vocab = found.cost, found.architecture
    return [
        ("kind", vocab.config.kind),
        ("vocabulary", f"{vocab.src_vocab:,} source, {vocab.tgt_vocab:,} target pieces"),
        ("parameters", f"{found.model.parameters:,}"),
        ("forward", f"{si(found.model.flops)}FLOP/token"),
        ("training", f"{si(cost.training)}FLOP/token"),
        ("kept for the gradient", f"{si(found.model.activations, 'B')}/token"),
        ("cache grows by", f"{si(cost.decoding.cache_per_token, 'B')}/output token"),
        ("cache besides", si(cost.decoding.cache_fixed, "B")),
        ("memory of the source", f"{si(cost.decoding.memory_per_token, 'B')}/source token"),
    ]


def figures(*found: Description) -> Table:
    """The summary of one description, or of two beside each other with a mark where they differ."""
    names = [each.architecture.name for each in found]
    compared = len(found) > 1
    table = _table("", *([*names, ""] if compared else names), numbers=0)
    for lines in zip(*(summary(each) for each in found), strict=True):
        values = [value for _, value in lines]
        mark = [_mark(values[0] != values[-1])] if compared else []
        table.add_row(lines[0][0], *values, *mark)
    return table


def comparison(one: Description, other: Description) -> Table:
    """The parts of two models beside each other; those that correspond stand in one row."""
    table = _table("part", one.architecture.name, "parameters", other.architecture.name, "parameters", "", numbers=0)
    table.columns[2].justify = table.columns[4].justify = "right"
    left, right = ({row.part.key: row for row in rows(each.model)} for each in (one, other))
    for key in merged(list(left), list(right)):
        sides = left.get(key), right.get(key)
        shown = next(row for row in sides if row is not None)
        cells = [_cells(row) for row in sides]
        table.add_row(_label(shown), *cells[0], *cells[1], _mark(cells[0] != cells[1]))
    return table


def merged(left: list[str], right: list[str]) -> list[str]:
    """Both lists as one in which what both have stands once, and the order of each is kept where they agree."""
    order = list(left)
    place = 0
    for key in right:
        if key in order:
            place = order.index(key) + 1
        else:
            order.insert(place, key)
            place += 1
    return order


def legend(length: int) -> list[str]:
    """What the figures count, in lines."""
    return [
        f"Per token of a sentence pair, {length} tokens on either side: the encoder's share of a source token and the",
        "decoder's of a target token together. FLOP: multiplications and additions of matrix products, nothing else;",
        "training: forward and backward. Kept: bytes that training holds for the gradient in float32, dropout masks as",
        "PyTorch has them; weights, and the loss, which goes in chunks, left out. Cache and memory: numbers of one",
        "hypothesis in float32. A line 'n ×' sums n parts that are alike; the lines inside it are of one of them.",
    ]


def si(number: float, unit: str = "") -> str:
    """A number with the letter for its size: 1.5 k, 2.25 M; bytes below 1000 are whole."""
    for letter, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {letter}{unit}"
    return f"{number:.0f} {unit}"


def _table(*names: str, numbers: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number >= len(names) - numbers else "left", no_wrap=True)
    return table


def _label(row: Row) -> Text:
    return Text.assemble((row.guide, "dim"), (row.part.name, "bold" if row.part.parts else ""))


def _cells(row: Row | None) -> tuple[str, str]:
    if row is None:
        return "–", ""
    what = f"{row.what} {row.part.shape}".strip() if row.part.key else row.part.kind
    return what, _parameters(row.part)


def _parameters(part: Part) -> str:
    """How many, or that another part has them already."""
    return f"{part.parameters:,}" if part.parameters else ("tied" if part.shape else "")


def _mark(differs: bool) -> Text:
    return Text(DIFFERS if differs else "", style="bold red")


def _blank(text: str, number: float) -> str:
    return text if number else ""
