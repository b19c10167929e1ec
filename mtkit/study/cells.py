"""The variants of a study: those that it names, times the values of its grid."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from mtkit.errors import RecipeError
from mtkit.recipe.overrides import merge
from mtkit.recipe.yaml_reader import Stated
from mtkit.study.config import nothing

Grid = Mapping[str, Sequence[Stated]]


def cells(variants: Mapping[str, Stated], grid: Grid) -> dict[str, Stated]:
    """What each variant states, by its name: `rope`, `warmup=400`, or `rope+warmup=400` where there is both.

    Raises:
        RecipeError: two would have the same name.
    """
    found: dict[str, Stated] = {}
    for name, stated in (variants or {"": nothing()}).items():
        for labels, cell in _combinations(grid):
            full = "+".join([name, *labels] if name else labels)
            if full in found:
                raise RecipeError(
                    f"{cell.origin.place}: grid: two combinations are called {full}; name them as variants"
                )
            found[full] = merge(stated, cell)
    return found


def _combinations(grid: Grid) -> Iterator[tuple[list[str], Stated]]:
    axes = [[(path, number, value) for number, value in enumerate(values)] for path, values in grid.items()]
    for chosen in itertools.product(*axes):
        cell = nothing()
        for path, _, value in chosen:
            cell = merge(cell, nest(path, value))
        yield [_label(path, number, value) for path, number, value in chosen], cell


def nest(path: str, value: Stated) -> Stated:
    """The part of a recipe that states a value at a path."""
    for key in reversed(path.split(".")):
        value = Stated({key: value}, value.origin)
    return value


def _label(path: str, number: int, value: Stated) -> str:
    """`warmup=400`, `norm=post`; of a mapping its kind, and of what has none its number in the grid, from 0."""
    key = path.removesuffix(".kind").rpartition(".")[2]
    plain = value.plain()
    if isinstance(plain, dict):
        plain = plain.get("kind", number)
    text = str(number) if isinstance(plain, list) else "none" if plain is None else str(plain).lower()
    return f"{key}=" + re.sub(r"[^\w.-]", "-", text)
