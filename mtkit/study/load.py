"""Study files: the variants of a recipe and how they are compared, read and checked before anything is trained."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated

from mtkit.config import Limits, config
from mtkit.errors import RecipeError
from mtkit.recipe.located import LocatedValue, Origin
from mtkit.recipe.paths import resolve_recipe_path
from mtkit.recipe.recipe import build_recipe, forbid_commands
from mtkit.recipe.schema import build
from mtkit.recipe.sections import Recipe
from mtkit.recipe.suggestions import suggest
from mtkit.recipe.tree import apply_overrides, base_path, merge, nest_dotted_keys, nested, read_tree
from mtkit.recipe.yaml_reader import read_yaml_file
from mtkit.training.objectives.config import DistillationConfig

VariantName = Annotated[str, Limits(pattern=r"^\w[\w.+=-]*\Z")]  # name of a folder
Seed = Annotated[int, Limits(ge=0, lt=2**63)]
NumWords = Annotated[int, Limits(gt=0)]
LearningRate = Annotated[float, Limits(gt=0)]


def empty() -> LocatedValue:
    """Empty partial recipe."""
    return LocatedValue({}, Origin("", Path(), from_file=False))


@config
class StudyConfig:
    """Variants of one recipe, each trained from every seed.

    `common` and each variant are partial recipes. The recipe of a variant is base, then `common`, then the variant,
    merged like a recipe and its `base:`.
    """

    name: VariantName  # name of the folder, runs/NAME
    base: str  # recipe: a file, relative to this one, or the name of a built-in recipe
    common: LocatedValue = field(default_factory=empty)  # partial recipe that all variants share
    variants: dict[VariantName, LocatedValue] = field(default_factory=dict)  # partial recipes by name
    # more variants: recipes of their own, files or names of built-in recipes; `common` and `grid` change them too
    recipes: dict[VariantName, str] = field(default_factory=dict)
    # values by the path of their key; every combination is a variant
    grid: dict[str, Annotated[list[LocatedValue], Limits(min_length=1)]] = field(default_factory=dict)
    # variant: the variant whose trained model it is initialised from
    init_from_variant: dict[str, str] = field(default_factory=dict)
    # variant whose objective is distillation: the variant whose trained model is its teacher
    teacher_variant: dict[str, str] = field(default_factory=dict)
    # variant: learning rates to try with the first seed; the one with the lowest loss on valid is that of the variant
    learning_rates: dict[str, Annotated[list[LearningRate], Limits(min_length=1)]] = field(default_factory=dict)
    # three seeds are enough for a standard deviation
    seeds: Annotated[list[Seed], Limits(min_length=1)] = field(default_factory=lambda: [1, 2, 3])
    # test sets of the comparison; null: the recipe's first. The table has the first; claims have the lines of all
    test: str | list[str] | None = None
    baseline: str | None = None  # variant that the others are tested against; null: the first
    # also report BLEU by source length: maximum number of words of each group; longer sources are a group of their own
    bleu_by_length: list[NumWords] = field(default_factory=list)
    exposure_bias: bool = False  # also measure free-running loss and repetition

    def __post_init__(self) -> None:
        if not self.variants and not self.grid and not self.recipes:
            raise ValueError("variants: nothing to compare; add variants or a grid")
        for seed in self.seeds:
            if self.seeds.count(seed) > 1:
                raise ValueError(f"seeds: {seed} occurs twice; equal seeds give equal runs")
        for variant in self.variants.keys() & self.recipes.keys():
            raise ValueError(f"recipes: {variant} is one of variants too; give it another name")
        if any(above <= below for below, above in zip(self.bleu_by_length, self.bleu_by_length[1:], strict=False)):
            raise ValueError(f"bleu_by_length: {self.bleu_by_length} is not ascending; sort the limits")


# keys that a variant may not set, with the reason
_RESERVED_KEYS = {
    "name": "the study names its runs; remove this key",
    "training.seed": "a study has one list of seeds for all variants; set seeds: [1, 2, 3]",
}


@dataclass(frozen=True)
class Study:
    """A checked study.

    Attributes:
        recipes: of each variant, in the order of the file; name and seed are those of the base.
        rates: learning rates that were chosen for variants (see run.py), with which `recipes` train.
    """

    config: StudyConfig
    recipes: Mapping[str, Recipe]
    baseline: str
    tests: Sequence[str]
    rates: Mapping[str, float] = field(default_factory=dict)

    @property
    def test(self) -> str:
        """Name of the first test set."""
        return self.tests[0]


def read_study(name_or_path: str, overrides: Sequence[str] = (), *, allow_commands: bool = False) -> Study:
    """Read and check a study and the recipes of all its variants.

    Args:
        name_or_path: a YAML file, or the name of a built-in study.
        overrides: `key=value` each. A key of a recipe overrides it in all variants (see StudyConfig.common).
        allow_commands: as in `load_recipe`.

    Raises:
        MissingInputError: no such study, or no such base.
        RecipeError: the study or a recipe is invalid; the message lists all errors with their lines.
    """
    errors: list[str] = []
    tree = read_yaml_file(resolve_recipe_path("study", name_or_path), errors)
    if not isinstance(tree.value, dict):
        known = ", ".join(field.name for field in fields(StudyConfig))
        raise RecipeError(f"{tree.origin.location}: a study is a mapping with the keys {known}")
    of_recipes, of_studies = ({field.name for field in fields(cls)} for cls in (Recipe, StudyConfig))
    keys = tree.value.keys() - {"name", "base"}  # which both have
    if keys & of_recipes and not keys & of_studies:
        raise RecipeError(
            f"{name_or_path}: a recipe, not a study; run it with mtkit run {name_or_path}, or compare variants of it "
            f"in a study with base: {name_or_path}"
        )
    if "common" in tree.value:  # before an override of one of its keys
        tree.value["common"] = nest_dotted_keys(tree.value["common"], errors)
    redirected = []  # a key of a recipe is one of `common`
    for override in overrides:
        section = override.partition("=")[0].partition(".")[0]
        redirected.append(f"common.{override}" if section in of_recipes - {"name"} else override)
    tree = apply_overrides(tree, redirected, Path.cwd(), errors)
    study: StudyConfig = build(StudyConfig, tree, errors)
    recipes = _recipes(study, tree, allow_commands=allow_commands)
    _check_names(study, tree, recipes)
    baseline = study.baseline or next(iter(recipes))
    tests = study.test or next(iter(recipes[baseline].corpus.test), "")
    tests = [tests] if isinstance(tests, str) else tests
    for test in tests:
        _check_test_set(recipes, tree, baseline=baseline, test=test)
    return Study(study, recipes, baseline, tests)


def _recipes(config: StudyConfig, tree: LocatedValue, *, allow_commands: bool) -> dict[str, Recipe]:
    """Recipe of each variant.

    Raises:
        RecipeError: a recipe is invalid; the message lists the errors of all variants, each error once.
    """
    shared_errors: list[str] = []
    base = read_tree(base_path(tree.value["base"]), shared_errors)
    grid = [nested(path, values[0]) for path, values in config.grid.items()]
    partial = {name: nest_dotted_keys(variant, shared_errors) for name, variant in config.variants.items()}
    shared = nest_dotted_keys(config.common, shared_errors)
    sections = {"common": shared, **partial, **dict(zip(config.grid, grid, strict=True))}
    shared_errors += [error for name, section in sections.items() for error in _section_errors(section, name)]
    common = merge(base, shared)
    variants = {name: merge(common, section) for name, section in variant_grid(partial, config.grid).items()}
    if config.recipes:
        located = tree.value["recipes"].value
        variants = variants if config.variants or config.grid else {}
        for name in config.recipes:
            variants[name] = merge(read_tree(base_path(located[name]), shared_errors), shared)
    recipes: dict[str, Recipe] = {}
    variants_of_error: dict[str, list[str]] = {}
    for name, variant in variants.items():
        try:
            recipes[name] = build_recipe(_with_teacher(variant, name, config), shared_errors)
            if not allow_commands:
                forbid_commands(variant)
        except RecipeError as error:
            for line in str(error).split("\n"):
                variants_of_error.setdefault(line, []).append(name)
    if variants_of_error:
        # an error of every variant is one of the base or of `common`; any other is followed by the first variant
        lines = [
            line if len(names) == len(variants) else f"{line} ({names[0]})" for line, names in variants_of_error.items()
        ]
        raise RecipeError("\n".join(lines))
    return recipes


def _with_teacher(tree: LocatedValue, variant: str, config: StudyConfig) -> LocatedValue:
    """A recipe that distils a variant, with the name of that one; the folder is known when the runs are."""
    teacher = config.teacher_variant.get(variant)
    kind = tree.at("training.objective.kind")
    if teacher is None or kind is None or kind.value != "distillation":
        return tree
    return merge(tree, nested("training.objective.teacher", LocatedValue(teacher, kind.origin)))


def _section_errors(section: LocatedValue, name: str) -> Iterator[str]:
    """Errors of a partial recipe: not a mapping, or reserved keys in it."""
    if not isinstance(section.value, dict):
        yield f"{section.origin.location}: {name}: {section.to_plain()!r} is not a mapping of a recipe's keys"
        return
    for path, reason in _RESERVED_KEYS.items():
        if (inner := section.at(path)) is not None:
            yield f"{inner.origin.location}: {path}: {reason}"


def _check_names(config: StudyConfig, tree: LocatedValue, recipes: Mapping[str, Recipe]) -> None:
    """Check that the variants that `baseline`, `init_from_variant` and `teacher_variant` name exist and suit.

    Raises:
        RecipeError: some do not; the message lists all of them.
    """
    errors, variants = [], list(recipes)
    if config.baseline is not None and config.baseline not in variants:
        errors.append(_unknown_variant(tree.value["baseline"], "baseline", config.baseline, variants))
    dependent = config.init_from_variant.keys() | config.teacher_variant.keys()
    needed = {*config.init_from_variant.values(), *config.teacher_variant.values()}
    for variant in config.learning_rates:
        located = tree.value["learning_rates"].value[variant]
        if variant not in variants:
            errors.append(_unknown_variant(located, "learning_rates", variant, variants))
        elif variant in needed:
            errors.append(
                f"{located.origin.location}: learning_rates.{variant}: other variants need its model; give its recipe "
                "one learning rate"
            )
    for key, source_of in (
        ("init_from_variant", config.init_from_variant),
        ("teacher_variant", config.teacher_variant),
    ):
        for variant, source in source_of.items():
            located = tree.value[key].value[variant]
            unknown = [name for name in (variant, source) if name not in variants]
            errors += [_unknown_variant(located, key, name, variants) for name in unknown]
            if source in dependent:
                errors.append(
                    f"{located.origin.location}: {key}.{variant}: {source} needs the model of a variant itself; "
                    "chains are not supported"
                )
    for variant in config.teacher_variant.keys() & recipes.keys():
        if not isinstance(recipes[variant].training.objective, DistillationConfig):
            errors.append(
                f"{tree.value['teacher_variant'].value[variant].origin.location}: teacher_variant.{variant}: only a "
                "distillation has a teacher; set training.objective.kind to distillation in this variant"
            )
    if errors:
        raise RecipeError("\n".join(errors))


def _unknown_variant(located: LocatedValue, key: str, name: str, variants: Sequence[str]) -> str:
    return f"{located.origin.location}: {key}: {name}: no such variant{suggest(name, variants)}"


def _check_test_set(recipes: Mapping[str, Recipe], tree: LocatedValue, *, baseline: str, test: str) -> None:
    """Check that all variants are scored with BLEU on the same text; they may read different tags before it.

    Raises:
        RecipeError: they are not.
    """
    location = tree.value["test"].origin.location if "test" in tree.value else tree.origin.location
    tests = recipes[baseline].corpus.test
    if test not in tests:
        raise RecipeError(
            f"{location}: test: {test or 'none'}: no such test set{suggest(test, list(tests)) if tests else ''}"
        )
    for name, recipe in recipes.items():
        files = recipe.corpus.test.get(test)
        if files is None or (files.src, files.tgt) != (tests[test].src, tests[test].tgt):
            raise RecipeError(f"{location}: test: {test}: {name} and {baseline} have different test files of this name")
        if "bleu" not in recipe.evaluation.metrics:
            raise RecipeError(f"{location}: {name}: evaluation.metrics: a study compares by BLEU; add bleu")


Grid = Mapping[str, Sequence[LocatedValue]]


def variant_grid(variants: Mapping[str, LocatedValue], grid: Grid) -> dict[str, LocatedValue]:
    """Partial recipe of each combination of variants and grid values, by its name.

    Names: `rope` (a variant), `warmup=400` (a grid value), `rope+warmup=400` (both).

    Raises:
        RecipeError: two combinations have the same name.
    """
    combinations: dict[str, LocatedValue] = {}
    for name, overrides in (variants or {"": empty()}).items():
        for labels, cell in _cells(grid):
            full_name = "+".join([name, *labels] if name else labels)
            if full_name in combinations:
                raise RecipeError(
                    f"{cell.origin.location}: grid: two combinations are named {full_name}; make them variants"
                )
            combinations[full_name] = merge(overrides, cell)
    return combinations


def _cells(grid: Grid) -> Iterator[tuple[list[str], LocatedValue]]:
    """Labels and partial recipe of each combination of grid values.

    The label of a value is such as `warmup=400`; a mapping is named by its kind or, without one, by its index from 0.
    """
    axes = [[(path, number, value) for number, value in enumerate(values)] for path, values in grid.items()]
    for coordinates in itertools.product(*axes):
        cell, labels = empty(), []
        for path, number, value in coordinates:
            cell = merge(cell, nested(path, value))
            key = path.removesuffix(".kind").rpartition(".")[2]
            plain = value.to_plain()
            if isinstance(plain, dict):
                plain = plain.get("kind", number)
            text = str(number) if isinstance(plain, list) else "none" if plain is None else str(plain).lower()
            labels.append(f"{key}=" + re.sub(r"[^\w.-]", "-", text))
        yield labels, cell
