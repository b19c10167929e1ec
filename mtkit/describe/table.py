"""Tables of model descriptions: one as a tree, two side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mtkit.describe.describe import ModelDescription, ModuleNode
from mtkit.display import Table

DIFFERS = "≠"


@dataclass(frozen=True)
class TreeRow:
    """A module in the printed tree; `guide` holds the branches drawn before its name."""

    guide: str
    node: ModuleNode

    @property
    def name(self) -> str:
        """The module's name behind its branches."""
        return f"{self.guide}{self.node.name}"

    @property
    def label(self) -> str:
        """Class name, with the number of equal layers if there are several."""
        return f"{self.node.count} × {self.node.kind}" if self.node.count > 1 else self.node.kind


def tree_rows(node: ModuleNode, guide: str = "", child_guide: str = "") -> Iterator[TreeRow]:
    """Rows of a module and all its descendants, from the top."""
    yield TreeRow(guide, node)
    for number, child in enumerate(node.children):
        is_last = number == len(node.children) - 1
        branch, trunk = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from tree_rows(child, child_guide + branch, child_guide + trunk)


def module_table(description: ModelDescription) -> Table:
    """The module tree with weights, parameters, FLOPs and saved activations."""
    rows = []
    for row in tree_rows(description.tree):
        _, flops, activations = row.node.figures
        figures = (
            _parameters(row.node),
            _blank_if_zero(format_si(flops), flops),
            _blank_if_zero(format_si(activations, "B"), activations),
        )
        rows.append([row.name, row.label, row.node.shape, *figures])
    headings = ("module", "class", "weights", "parameters", "FLOP/token", "saved/token")
    return Table(headings, rows, text=headings[:3])


def summary(description: ModelDescription) -> list[tuple[str, str]]:
    """Names and values of the figures of the whole model."""
    cost, architecture = description.cost, description.architecture
    return [
        ("kind", architecture.config.kind),
        ("vocabulary", f"{architecture.src_vocab:,} source, {architecture.tgt_vocab:,} target tokens"),
        ("parameters", f"{description.tree.parameters:,}"),
        ("forward", f"{format_si(description.tree.flops)}FLOP/token"),
        ("training", f"{format_si(cost.training)}FLOP/token"),
        ("saved for the gradient", f"{format_si(description.tree.activations, 'B')}/token"),
        ("decoder cache, growth", f"{format_si(cost.decoding.cache_per_token, 'B')}/output token"),
        ("decoder cache, fixed", format_si(cost.decoding.cache_fixed, "B")),
        ("encoder memory", f"{format_si(cost.decoding.memory_per_token, 'B')}/source token"),
    ]


def summary_table(*descriptions: ModelDescription) -> Table:
    """The summary of one description, or of two side by side with a mark where they differ."""
    names = [description.architecture.name for description in descriptions]
    rows = []
    for lines in zip(*map(summary, descriptions), strict=True):
        values = [value for _, value in lines]
        rows.append([lines[0][0], *values, *([_mark(values[0] != values[-1])] if len(values) > 1 else [])])
    headings = ["figure", *names, *(["differs"] if len(names) > 1 else [])]
    return Table(headings, rows, text=headings)


def comparison_table(first: ModelDescription, second: ModelDescription) -> Table:
    """The modules of two models side by side; corresponding modules share a row."""
    left, right = ({row.node.key: row for row in tree_rows(each.tree)} for each in (first, second))
    rows = []
    for key in merge_aligned(list(left), list(right)):
        sides = left.get(key), right.get(key)
        present = next(row for row in sides if row is not None)
        cells = [_cells(row) for row in sides]
        rows.append([present.name, *cells[0], *cells[1], _mark(cells[0] != cells[1])])
    names = [each.architecture.name for each in (first, second)]
    headings = ["module", names[0], f"parameters of {names[0]}", names[1], f"parameters of {names[1]}", "differs"]
    return Table(headings, rows, text=("module", *names))


def merge_aligned(left: list[str], right: list[str]) -> list[str]:
    """Merge two lists so that common items appear once: `a b d` and `a c d` give `a c b d`.

    Items of `right` that `left` lacks are inserted after their predecessor in `right`.
    """
    merged = list(left)
    index = 0
    for key in right:
        if key in merged:
            index = merged.index(key) + 1
        else:
            merged.insert(index, key)
            index += 1
    return merged


def legend(length: int) -> list[str]:
    """Notes that explain the figures."""
    return [
        f"Figures are per token of a sentence pair with {length} tokens on each side: encoder cost per source token "
        "plus decoder cost per target token.",
        "FLOP: multiplications and additions of matrix products only; training: forward and backward.",
        "Saved: float32 activations that training keeps for the gradient, with PyTorch's dropout masks, without "
        "weights and without the loss (computed in chunks).",
        "Decoder cache and encoder memory: float32, one hypothesis.",
        "A row 'n ×' sums n equal layers; the rows below it describe one of them.",
    ]


def format_si(number: float, unit: str = "") -> str:
    """Format a number with an SI prefix (1.54 k, 2.25 M) and three digits; below 1000 it is rounded to an integer."""
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {prefix}{unit}"
    return f"{number:.0f} {unit}"


def _cells(row: TreeRow | None) -> tuple[str, str]:
    if row is None:
        return "–", ""
    label = f"{row.label} {row.node.shape}".strip() if row.node.key else row.node.kind
    return label, _parameters(row.node)


def _parameters(node: ModuleNode) -> str:
    """The number of parameters; "tied" for weights that are counted at another module."""
    return f"{node.parameters:,}" if node.parameters else ("tied" if node.shape else "")


def _mark(differs: bool) -> str:
    return DIFFERS if differs else ""


def _blank_if_zero(text: str, number: float) -> str:
    return text if number else ""
