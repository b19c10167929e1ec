"""Recipe: the YAML file that defines a run, read into frozen dataclasses and checked as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field

from mtkit.corpus.config import CorpusConfig, has_training_text, training_text
from mtkit.errors import DamagedError, MissingInputError, RecipeError
from mtkit.evaluation.config import EvaluationConfig
from mtkit.hardware import has_gpu
from mtkit.io.records import DAMAGED, is_text_record, write_text_record
from mtkit.models.config import ModelConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.recipe import schema
from mtkit.recipe.builtin import resolve_recipe_path
from mtkit.recipe.defaults.choose import choose, describe, omitted_rules, value_at, with_implied, with_values
from mtkit.recipe.defaults.facts import NO_LIMITS, Facts, Limits
from mtkit.recipe.defaults.statistics import corpus_statistics
from mtkit.recipe.overrides import apply_overrides, merge, nest_dotted_keys
from mtkit.recipe.paths import base_path, escape_path, expand_path
from mtkit.recipe.rules import broken_rules, ignored_tokenizer_keys
from mtkit.recipe.yaml_reader import LocatedValue, Origin, StrictLoader, read_yaml_file
from mtkit.search.config import SearchConfig
from mtkit.text.config import TokenizerConfig
from mtkit.text.lines import list_of_texts, require_path
from mtkit.training.config import TrainingConfig

NAME_OF_RUN = "a name of at most 200 characters without / that begins with neither . nor a space"
RunName = Annotated[str, Field(pattern=r"^[^/\s.\x00-\x1f][^/\x00-\x1f\x7f]{0,199}$", description=NAME_OF_RUN)]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Configuration of a run.

    `load_recipe` reads it from YAML, with absolute paths and checked types and ranges. A recipe that is built in Python
    is checked in the same way by the functions that take it, such as `mtkit.train`; relative paths are then relative to
    the current directory.

    Raises:
        ValueError: sections of the recipe are incompatible.
    """

    name: RunName  # name of the run folder, runs/NAME
    corpus: CorpusConfig
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=TransformerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    # of omitted keys of tokenizer, model and training: chosen from the corpus (docs/defaults.md), or those of this page
    defaults: Literal["corpus", "fixed"] = "corpus"
    chosen: dict[str, str] = field(default_factory=dict)  # reasons of the values that mtkit chose, for the reader

    def __post_init__(self) -> None:
        for error in broken_rules(self):
            raise ValueError(error)


def load_recipe(
    name_or_path: str, overrides: Sequence[str] = (), *, limits: Limits = NO_LIMITS, decided: Recipe | None = None
) -> Recipe:
    """Read and check a recipe, and choose values for the keys that it leaves out.

    With `defaults: corpus`, omitted keys of tokenizer, model and training follow from the training text and the machine
    (docs/defaults.md). If the text is missing, they have the fixed defaults.

    Args:
        name_or_path: a YAML file, or the name of a built-in recipe.
        overrides: `key=value` each; relative paths in them are relative to the current directory.
        limits: of a time budget.
        decided: saved recipe of a training that was started, whose choices are kept.

    Returns:
        The recipe, with every key and absolute paths; `chosen` has the reasons of chosen values.

    Raises:
        MissingInputError: no such recipe; the message lists similar names.
        RecipeError: the recipe is invalid; the message lists all errors with their lines.
        DataError: the training text cannot be read.
        DamagedError: it is the saved recipe of a run folder, and it was changed.
        TypeError: `overrides` is one text instead of a list.

    Example:
        >>> recipe = load_recipe("quickstart", ["training.max_updates=500", "model.d_model=128"])
    """
    require_path("name_or_path", name_or_path)
    list_of_texts("overrides", overrides)
    errors: list[str] = []
    path = resolve_recipe_path("recipe", name_or_path)
    if backup_path(path).is_file() and is_text_record(backup_path(path)) and not is_text_record(path):
        remedy = f"its copy {backup_path(path).name} is intact; make changes with KEY=VALUE, or in another file"
        raise DamagedError(f"{path}: the recipe of a run, {DAMAGED}", remedy)
    tree = read_tree(path, errors)
    if "name" not in tree.value:
        tree = with_values(tree, {"name": path.stem})
    tree = with_implied(apply_overrides(tree, overrides, Path.cwd(), errors))
    recipe = build_recipe(tree, errors)
    if not is_text_record(path) and (ignored := list(ignored_tokenizer_keys(tree, recipe))):
        raise RecipeError("\n".join(ignored))  # the recipe that a run folder has saved states every key
    return _with_choices(tree, recipe, limits, decided)


def _with_choices(tree: LocatedValue, fixed: Recipe, limits: Limits, decided: Recipe | None) -> Recipe:
    """Choose values for the omitted keys of a recipe that has the fixed defaults for them."""
    rules = omitted_rules(tree, fixed)
    if not rules or not has_training_text(fixed.corpus):
        return fixed
    if decided is None:
        statistics = corpus_statistics(*zip(*map(training_text, fixed.corpus.train), strict=True))
        has_valid = fixed.corpus.valid is not None
        choices = choose(rules, fixed, Facts(statistics, has_gpu(), has_valid, limits), to_plain(fixed))
        values = {key: choice.value for key, choice in choices.items()}
        reasons = {key: choice.reason for key, choice in choices.items()}
    else:
        values = {rule.key: value_at(to_plain(decided), rule.key) for rule in rules}
        reasons = {key: reason for key, reason in decided.chosen.items() if key in values}
    recipe = build_recipe(with_values(tree, values), [])
    return dataclasses.replace(recipe, chosen=reasons)


def describe_choices(recipe: Recipe) -> list[str]:
    """Return a line for each value that was chosen: "tokenizer.vocab_size 4,000: 4,600 pairs"."""
    return describe(recipe.chosen, to_plain(recipe))


def build_recipe(tree: LocatedValue, errors: Sequence[str]) -> Recipe:
    """Build a recipe from a tree of values.

    Args:
        tree: of the recipe with its bases and overrides.
        errors: found so far, reported together with new ones.

    Raises:
        RecipeError: there are errors; the message lists all of them.
    """
    _apply_corpus_root(tree)
    recipe: Recipe = schema.build(Recipe, tree, errors)
    return recipe


def validate_recipe(recipe: Recipe) -> Recipe:
    """Check a recipe that was built in Python as one that was read from YAML; return it with absolute paths.

    Dataclasses check neither types nor ranges of their fields. Relative paths are relative to the current directory.

    Raises:
        RecipeError: a value is invalid; all errors are listed.
        TypeError: it is no recipe.
    """
    if not isinstance(recipe, Recipe):
        raise TypeError(f"recipe: a Recipe is expected, not {type(recipe).__name__}; mtkit.load_recipe reads one")
    return build_recipe(with_location(to_plain(recipe), f"recipe {recipe.name!r}", Path.cwd()), [])


def load_search(default: SearchConfig, overrides: Sequence[str]) -> SearchConfig:
    """Apply overrides to a search configuration: `search.beam_size=1`, or the key without `search.`.

    Raises:
        RecipeError: an override is invalid.
    """
    if not overrides:
        return default
    errors: list[str] = []
    tree = with_location({"search": to_plain(default)}, "config.json", Path.cwd())
    full = [text if text.startswith("search.") else f"search.{text}" for text in overrides]
    tree = apply_overrides(tree, [*full, *default.implied_by(full)], Path.cwd(), errors)
    result: _SearchOverrides = schema.build(_SearchOverrides, tree, errors)
    return result.search


@dataclass(frozen=True)
class _SearchOverrides:
    search: SearchConfig


def read_tree(path: Path, errors: list[str]) -> LocatedValue:
    """Read a recipe and its bases into one tree of values.

    Raises:
        RecipeError: a file is not YAML or not a mapping, or a recipe is its own base.
        MissingInputError: a base does not exist.
    """
    tree = nest_dotted_keys(read_yaml_file(path, errors), errors)
    seen = [path.resolve()]
    while True:
        if not isinstance(tree.value, dict):
            known = ", ".join(f.name for f in dataclasses.fields(Recipe))
            raise RecipeError(f"{tree.origin.location}: a recipe is a mapping with the keys {known}")
        if "base" not in tree.value:
            return tree
        base = tree.value["base"]
        if not isinstance(base.value, str):
            raise RecipeError(f"{base.origin.location}: base: {base.to_plain()!r} is not a path")
        path = base_path(base)
        if not path.exists():
            raise MissingInputError(f"{base.origin.location}: base: {base.value}: no such recipe")
        seen.append(path.resolve())
        if seen[-1] in seen[:-1]:
            cycle = " -> ".join(each.name for each in seen[seen.index(seen[-1]) :])
            raise RecipeError(f"{base.origin.location}: base: circular: {cycle}")
        top = LocatedValue({k: v for k, v in tree.value.items() if k != "base"}, tree.origin)
        below = nest_dotted_keys(read_yaml_file(path, errors), errors)
        tree = merge(below, top) if isinstance(below.value, dict) else below


def _apply_corpus_root(tree: LocatedValue) -> None:
    """Make relative paths in the section `corpus` of a file relative to `corpus.root`."""
    corpus = tree.value.get("corpus") if isinstance(tree.value, dict) else None
    root = corpus.value.get("root") if corpus is not None and isinstance(corpus.value, dict) else None
    if corpus is None or root is None or not isinstance(root.value, str):
        return
    with suppress(ValueError):  # an unset variable is reported where the value of corpus.root is checked
        folder = root.origin.folder / expand_path(root.value)
        for key, value in corpus.value.items():
            if key != "root":
                _rebase(value, folder)


def _rebase(value: LocatedValue, folder: Path) -> None:
    if value.origin.from_file:
        value.origin = dataclasses.replace(value.origin, folder=folder)
    items = value.value.values() if isinstance(value.value, dict) else value.value
    for item in items if isinstance(value.value, dict | list) else ():
        _rebase(item, folder)


def to_plain(value: Any) -> Any:
    """Convert dataclasses to mappings, lists and scalars, with every key; paths are text as in YAML."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return escape_path(value) if isinstance(value, Path) else value


def with_location(value: Any, location: str, folder: Path) -> LocatedValue:
    """Attach one origin to plain values, so that they can be checked like those of a file."""
    origin = Origin(location, folder, from_file=True)
    if isinstance(value, dict):
        return LocatedValue({key: with_location(item, location, folder) for key, item in value.items()}, origin)
    if isinstance(value, list):
        return LocatedValue([with_location(item, location, folder) for item in value], origin)
    return LocatedValue(value, origin)


class _Dumper(yaml.SafeDumper):
    """YAML writer that quotes every string that YAML 1.1 or 1.2 would read as another type."""


for _first, _pairs in StrictLoader.yaml_implicit_resolvers.items():
    for _tag, _pattern in _pairs:
        _Dumper.add_implicit_resolver(_tag, _pattern, [_first])


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write a recipe with every key and absolute paths, so that it is independent of its location, and a copy of it.

    If the process is killed between the two, both are intact, and the file counts.

    Raises:
        ReadWriteError: a file cannot be written.
    """
    text = yaml.dump(to_plain(recipe), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    write_text_record(backup_path(path), text)
    write_text_record(path, text)


def backup_path(path: Path) -> Path:
    """Return the path of the copy of a recipe written by `save_recipe`: recipes cannot be derived from other files."""
    return path.with_name(f".{path.name}")


def damaged_copies(path: Path) -> list[str]:
    """Return a message about each of the two files of `save_recipe` that is missing or damaged."""
    problems = []
    for copy in (path, backup_path(path)):
        if not copy.is_file():
            problems.append(f"{copy}: no such file")
        elif not is_text_record(copy):
            problems.append(f"{copy}: {DAMAGED}")
    return problems


def load_saved(path: Path) -> Recipe:
    """Read a recipe written by `save_recipe`, from its copy if the file is missing or damaged.

    Raises:
        DamagedError: both are.
        RecipeError: another version of mtkit wrote it.
    """
    intact = [copy for copy in (path, backup_path(path)) if copy.is_file() and is_text_record(copy)]
    if not intact:
        raise DamagedError("; ".join(damaged_copies(path)), "restore one of them from a copy; nothing was changed")
    errors: list[str] = []
    return build_recipe(read_tree(intact[0], errors), errors)
