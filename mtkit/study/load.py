"""A study file → checked recipes, one for each variant, before anything is trained."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from mtkit.errors import MissingInputError, RecipeError
from mtkit.recipe.overrides import apply_overrides, merge
from mtkit.recipe.recipe import Recipe, build_recipe, read_tree
from mtkit.recipe.schema import build, close, shorten
from mtkit.recipe.shipped import find, shipped
from mtkit.recipe.yaml_reader import Stated, read_yaml_file
from mtkit.study.config import StudyConfig, nothing

# what a study decides by itself, with the reason
_DECIDED = {
    ("name",): "the study names its runs; take this key out",
    ("training", "seed"): "the seeds of a study are stated once for all variants, as seeds: [1, 2, 3]",
}


@dataclass(frozen=True)
class Study:
    """A checked study.

    Attributes:
        config: what the file says.
        recipes: of each variant, in the order of the file; name and seed are those of the base.
        baseline: the variant that the others are tested against.
        test: the test set.
    """

    config: StudyConfig
    recipes: Mapping[str, Recipe]
    baseline: str
    test: str


def read_study(name_or_path: str, overrides: Sequence[str] = ()) -> Study:
    """Read and check a study and the recipes of all its variants.

    Args:
        name_or_path: a YAML file, or the name of a study that comes with mtkit.
        overrides: `key=value` each, of a key of the study or, for its budget, of a recipe.

    Raises:
        MissingInputError: there is no such study, or no such base.
        RecipeError: something is wrong; all faults are named with their lines.
    """
    faults: list[str] = []
    tree = read_yaml_file(find("study", name_or_path), faults)
    if not isinstance(tree.value, dict):
        known = ", ".join(field.name for field in fields(StudyConfig))
        raise RecipeError(f"{tree.origin.place}: a study is a mapping with the keys {known}")
    tree = apply_overrides(tree, [_at_home(text) for text in overrides], Path.cwd(), faults)
    config: StudyConfig = build(StudyConfig, tree, faults)
    recipes = _recipes(config, tree)
    _check_names(config, tree, list(recipes))
    baseline = config.baseline or next(iter(recipes))
    test = config.test or next(iter(recipes[baseline].corpus.test), "")
    _check_test(recipes, tree, baseline=baseline, test=test)
    return Study(config, recipes, baseline, test)


def _at_home(override: str) -> str:
    """An override of a recipe's key is one of the budget's."""
    of_recipe = {field.name for field in fields(Recipe)} - {"name"}
    return f"budget.{override}" if override.partition("=")[0].partition(".")[0] in of_recipe else override


def _recipes(config: StudyConfig, tree: Stated) -> dict[str, Recipe]:
    """The recipe of each variant.

    Raises:
        RecipeError: with the faults of all of them, each once.
    """
    known: list[str] = []
    base = read_tree(_base(tree.value["base"]), known)
    grid = [nest(path, values[0]) for path, values in config.grid.items()]
    parts = {"budget": config.budget, **config.variants, **dict(zip(config.grid, grid, strict=True))}
    known += [fault for name, part in parts.items() for fault in _faults(part, name)]
    budget = merge(base, config.budget)
    recipes: dict[str, Recipe] = {}
    faults: dict[str, list[str]] = {}  # and the variants that have them
    variants = cells(config.variants, config.grid)
    for name, stated in variants.items():
        try:
            recipes[name] = build_recipe(merge(budget, stated), known)
        except RecipeError as error:
            for line in str(error).split("\n"):
                faults.setdefault(line, []).append(name)
    if faults:
        lines = [line if len(names) == len(variants) else f"{line} ({names[0]})" for line, names in faults.items()]
        raise RecipeError(shorten(lines))
    return recipes


def _faults(part: Stated, name: str) -> Iterator[str]:
    """Why this is no part of a recipe, or what it may not state."""
    if not isinstance(part.value, dict):
        yield f"{part.origin.place}: {name}: {part.plain()!r} is not a mapping of a recipe's keys"
        return
    for path, reason in _DECIDED.items():
        inner: Stated | None = part
        for key in path:
            inner = inner.value.get(key) if inner is not None and isinstance(inner.value, dict) else None
        if inner is not None:
            yield f"{inner.origin.place}: {'.'.join(path)}: {reason}"


def _base(stated: Stated) -> Path:
    known = shipped("recipe")
    path: Path = stated.origin.folder / os.path.expanduser(stated.value)
    if stated.value in known:
        return known[stated.value]
    if path.is_file():
        return path
    raise MissingInputError(
        f"{stated.origin.place}: base: {stated.value}: no such recipe{close(stated.value, list(known))}"
    )


def _check_names(config: StudyConfig, tree: Stated, variants: Sequence[str]) -> None:
    """Whether variants that are named elsewhere are there.

    Raises:
        RecipeError: with all that are not.
    """
    faults = []
    if config.baseline is not None and config.baseline not in variants:
        faults.append(_unknown(tree.value["baseline"], "baseline", config.baseline, variants))
    for variant, source in config.begin_from.items():
        stated = tree.value["begin_from"].value[variant]
        faults += [_unknown(stated, "begin_from", name, variants) for name in (variant, source) if name not in variants]
        if source in config.begin_from:
            faults.append(
                f"{stated.origin.place}: begin_from.{variant}: {source} itself begins from another; one step only"
            )
    if faults:
        raise RecipeError(shorten(faults))


def _unknown(stated: Stated, key: str, name: str, variants: Sequence[str]) -> str:
    return f"{stated.origin.place}: {key}: {name}: no such variant{close(name, variants)}"


def _check_test(recipes: Mapping[str, Recipe], tree: Stated, *, baseline: str, test: str) -> None:
    """Whether all variants are scored on the same text.

    Raises:
        RecipeError: they are not.
    """
    place = tree.value["test"].origin.place if "test" in tree.value else tree.origin.place
    tests = recipes[baseline].corpus.test
    if test not in tests:
        raise RecipeError(
            f"{place}: test: {test or 'none'}: no such test set{close(test, list(tests)) if tests else ''}"
        )
    for name, recipe in recipes.items():
        if recipe.corpus.test.get(test) != tests[test]:
            raise RecipeError(f"{place}: test: {test}: {name} has other files of that name than {baseline}, or none")
        if "bleu" not in recipe.evaluation.metrics:
            raise RecipeError(f"{place}: {name}: evaluation.metrics: a study compares by bleu; name it there")


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
