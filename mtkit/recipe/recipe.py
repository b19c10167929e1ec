"""Reading of recipes: YAML or Python values to a checked `Recipe`, and the recipe that a run folder keeps.

A recipe is read once: `read_recipe` turns the file into a tree of values and the tree into dataclasses, which are
checked; choices for omitted keys then replace values of these.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from mtkit.corpus.config import extract_lines
from mtkit.errors import DamagedError, RecipeError
from mtkit.io.records import DAMAGED, is_record, is_text_record, read_text_record
from mtkit.recipe import schema
from mtkit.recipe.defaults.choose import Draft, choose
from mtkit.recipe.located import COMMAND_LINE, LocatedValue, with_location
from mtkit.recipe.paths import expand_path, resolve_recipe_path, to_plain
from mtkit.recipe.rules import broken_rules
from mtkit.recipe.sections import Recipe
from mtkit.recipe.tree import apply_overrides, complete_tree, read_tree
from mtkit.text.lines import list_of_texts, require_path

RESTORE = "undo the change, or restore it from a copy; nothing was changed"  # remedy for a damaged one
RECIPE, VERSION = "recipe.yaml", "version.json"  # names in a run folder
COMMAND_KEY = "training.validation.command"


def load_recipe(name_or_path: str, overrides: Sequence[str] = (), *, allow_commands: bool = False) -> Recipe:
    """Read and check a recipe, and choose values for the keys that it leaves out.

    With `defaults: corpus`, omitted keys of tokenizer, model and training follow from the training text and the machine
    (docs/defaults.md). If the text is missing, they have the fixed defaults.

    Args:
        name_or_path: a YAML file, or the name of a built-in recipe.
        overrides: `key=value` each; relative paths in them are relative to the current directory.
        allow_commands: whether the file may state a shell command for the training to run (see SECURITY.md).

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
    draft = read_recipe(name_or_path, overrides, allow_commands=allow_commands)
    extract_lines(draft.recipe.corpus.train, only_existing=True)
    return choose(draft)


def read_recipe(name_or_path: str, overrides: Sequence[str] = (), *, allow_commands: bool = False) -> Draft:
    """Read and check a recipe; arguments and errors as `load_recipe`, except that no training text is read."""
    require_path("name_or_path", name_or_path)
    list_of_texts("overrides", overrides)
    if file := next((each for each in overrides if "=" not in each and os.path.isfile(each)), None):
        texts = f"{name_or_path} {file}"
        raise RecipeError(f"{texts}: two texts are no recipe; mtkit run {texts} writes one and runs all stages")
    path, errors = resolve_recipe_path("recipe", name_or_path), list[str]()
    is_saved = is_text_record(path)
    if not is_saved and path.name == RECIPE and is_record(path.with_name(VERSION)):
        remedy = "undo the change; make changes with KEY=VALUE, or in another file"
        raise DamagedError(f"{path}: the recipe of a run, {DAMAGED}", remedy)
    tree = complete_tree(path, overrides, errors)
    draft = Draft(build_recipe(tree, errors, is_written=not is_saved), tree)
    if not allow_commands:
        forbid_commands(tree)
    return draft


def forbid_commands(tree: LocatedValue) -> None:
    """Refuse a shell command that a file states; one of the command line is the user's own.

    Raises:
        RecipeError: names the file, the line and the command.
    """
    command = tree.at(COMMAND_KEY)
    if command is not None and command.value is not None and command.origin.location != COMMAND_LINE:
        raise RecipeError(
            f"{command.origin.location}: {COMMAND_KEY}: runs the shell command {str(command.value)[:200]!r}; allow it "
            f"with --allow-commands (in Python: allow_commands=True), or remove it with {COMMAND_KEY}=null"
        )


def load_saved(path: Path) -> Recipe:
    """Read a recipe written by `save_recipe`.

    Raises:
        DamagedError: it is missing or damaged.
        RecipeError: another version of mtkit wrote it.
    """
    if not path.is_file():
        raise DamagedError(f"{path}: no such file", RESTORE)
    read_text_record(path, remedy=RESTORE)
    errors: list[str] = []
    return build_recipe(read_tree(path, errors), errors)


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


def build_recipe(tree: LocatedValue, errors: Sequence[str], *, is_written: bool = False) -> Recipe:
    """Build a recipe from a tree of values, with the fixed defaults for the keys that it leaves out.

    Args:
        is_written: a user wrote it, so that a key that another one makes ineffective is a mistake.

    Raises:
        RecipeError: there are errors; the message lists all of them.
    """
    _convert_former_trackers(tree)
    corpus, root = tree.at("corpus"), tree.at("corpus.root")
    if corpus is not None and root is not None and isinstance(root.value, str):
        with suppress(ValueError):  # an unset variable is reported where the value of corpus.root is checked
            folder = root.origin.folder / expand_path(root.value)
            for key in corpus.value.keys() - {"root"}:
                _rebase(corpus.value[key], folder)
    rules = partial(broken_rules, stated=tree if is_written else None)
    recipe: Recipe = schema.build(Recipe, tree, errors, rules)
    return recipe


def check_overrides(overrides: Sequence[str]) -> None:
    """Check overrides of a recipe that is not written yet, with files and languages alone.

    Raises:
        RecipeError: a key does not exist, or a value is invalid.
    """
    errors: list[str] = []
    files = {"src": "src", "tgt": "tgt"}
    corpus = {"src_lang": "src", "tgt_lang": "tgt", "train": [files], "valid": files, "test": {"test": files}}
    tree = with_location({"name": "new", "corpus": corpus}, "recipe", Path.cwd())
    build_recipe(apply_overrides(tree, overrides, Path.cwd(), errors), errors)


def _convert_former_trackers(tree: LocatedValue) -> None:
    """Turn `tensorboard`, `wandb` and `mlflow`, true or false in recipes before `training.trackers`, into its items."""
    training, stated = tree.at("training"), tree.at("training.trackers")
    if training is None or not isinstance(training.value, dict):
        return
    former = {name: training.value[name] for name in ("tensorboard", "wandb", "mlflow") if name in training.value}
    former = {name: each for name, each in former.items() if isinstance(each.value, bool)}
    if former and (stated is None or isinstance(stated.value, list)):
        kept = [each for each in (stated.value if stated else []) if each.value not in former]
        used = [LocatedValue(name, each.origin) for name, each in former.items() if each.value]
        training.value["trackers"] = LocatedValue([*kept, *used], (stated or next(iter(former.values()))).origin)
        for name in former:
            del training.value[name]


def _rebase(value: LocatedValue, folder: Path) -> None:
    """Make relative paths that a file states relative to `corpus.root`."""
    if value.origin.from_file:
        value.origin = dataclasses.replace(value.origin, folder=folder)
    items = value.value.values() if isinstance(value.value, dict) else value.value
    for item in items if isinstance(value.value, dict | list) else ():
        _rebase(item, folder)
