"""Reconciling a recipe with the training in its run folder: changes that training can continue with, and others.

A finished training is kept, and values of the validation metric are compared, only if their fingerprints are equal.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mtkit.corpus.store import Store
from mtkit.errors import RecipeError
from mtkit.models.config import ModelConfig
from mtkit.pipeline.builders import resolve_auto_precision, with_heads_of, with_pruned_heads
from mtkit.pipeline.run_folder import RunFolder
from mtkit.recipe.paths import to_plain
from mtkit.recipe.sections import Recipe
from mtkit.recipe.type_hints import default_of
from mtkit.search.config import ONE_BEST, SearchConfig
from mtkit.training.config import TrainingConfig, ValidationConfig, resumable_keys

MAX_LISTED = 8  # changes in an error message

# text files are compared by content, in prepare_corpus.py; validation and test sets, search and evaluation may change
# at any time unless training depends on them
_ALWAYS_HARMLESS = frozenset({"name", "search", "evaluation", "corpus.valid", "corpus.test"})

# search keys that validation takes from the recipe: those that `with_plain_beam` leaves
_SEARCH_KEYS = [key.name for key in dataclasses.fields(SearchConfig) if key.name not in ("beam_size", *ONE_BEST)]
BLEU_KEYS = frozenset({"evaluation.tokenize", *(f"search.{name}" for name in _SEARCH_KEYS)})  # affect validation BLEU
# those of the version whose fingerprints had keys with their defaults too
_FORMER_SEARCH_KEYS = (
    "length_penalty max_length min_length patience early_stopping coverage_penalty no_repeat_ngram repetition_penalty "
    "allow_unknown split_long_lines retry_loops"
)


@dataclass(frozen=True)
class Changes:
    """Keys that differ between two recipes, each as "key: old, now new", in the order of the recipe.

    Attributes:
        fatal: changes that a training cannot continue with.
        harmless: changes that it can continue with.
    """

    fatal: list[str]
    harmless: list[str]


def compare_recipes(before: Recipe, after: Recipe) -> Changes:
    """Return the differences between two recipes, except the paths of training text.

    A key of `training` is harmless if `training.config.resumable_keys` names it for both recipes.
    """
    harmless = resumable_keys(before.training) & resumable_keys(after.training)
    harmless_paths = _ALWAYS_HARMLESS | {f"training.{key}" for key in harmless}
    training = before.training
    # Minimum risk training samples translations; a plateau schedule follows the validation metric.
    dependencies = {"search.max_length"} if training.objective.samples_translations else set[str]()
    if training.schedule.depends_on_validation and training.validation.metric != "nll":
        dependencies |= BLEU_KEYS
    old, new = dict(flat_keys(to_plain(before))), dict(flat_keys(to_plain(after)))
    kinds = [key.removesuffix("kind") for key in old if key.endswith(".kind") and key in new and old[key] != new[key]]
    changes = Changes([], [])
    for key in [*old, *(key for key in new if key not in old)]:
        # where the kind changed, the keys of the old and the new kind have nothing in common: list the kind alone
        is_of_changed_kind = any(key.startswith(kind) and key != f"{kind}kind" for kind in kinds)
        names = key.split(".")
        # the content of these files is compared, in prepare_corpus.py and prepare_tokenizer.py
        is_path = key == "corpus.root" or names[:2] == ["tokenizer", "model"]
        is_path |= names[:2] == ["corpus", "train"] and names[-1] in ("src", "tgt", "text")
        is_same = key in old and key in new and old[key] == new[key]
        if is_same or is_of_changed_kind or is_path or names[0] in ("defaults", "chosen"):
            continue
        change = f"{key}: {_format_value(old, key)}, now {_format_value(new, key)}"
        is_harmless = _is_within(key, harmless_paths) and not _is_within(key, dependencies)
        (changes.harmless if is_harmless else changes.fatal).append(change)
    return changes


def reconcile_recipe(recipe: Recipe, folder: RunFolder) -> tuple[Recipe, list[str]]:
    """Check that a recipe can be used in a run folder, with a training that may have been started there.

    Returns:
        The recipe with `auto` precision and, if training was started, `auto` batch size resolved, and with the head
        counts of a pruned model that it continues; and the harmless changes since training was started.

    Raises:
        RecipeError: training was started with another recipe, or the heads of a pruned model do not fit.
        MissingInputError, DataError: a model to start from cannot be read.
        DamagedError: its recipe is missing or damaged, and so is the copy.
        FormatError: training was started by another version of mtkit in a format that this one does not read.
    """
    if not folder.has_training():
        training, model = recipe.training, with_pruned_heads(recipe.model, recipe.training.init_from_list)
        return replace(recipe, training=resolve_auto_precision(training), model=model), []
    folder.check_format()
    before = folder.load_recipe()
    training = recipe.training  # a training keeps the precision and the batch size that it was started with
    if training.precision == "auto":
        training = replace(training, precision=before.training.precision)
    if training.batch_tokens == "auto":
        training = replace(training, batch_tokens=before.training.batch_tokens)
    model = with_heads_of(before.model, recipe.model) if recipe.training.init_from_list else recipe.model
    recipe = replace(recipe, training=training, model=model)
    changes = compare_recipes(before, recipe)
    if changes.fatal:
        listed = "\n".join(f"  {change}" for change in changes.fatal[:MAX_LISTED])
        more = "\n  ..." if len(changes.fatal) > MAX_LISTED else ""
        keys = ", ".join(change.partition(":")[0] for change in changes.harmless)
        harmless = f"\nthese changes are allowed: {keys}" if keys else ""
        further = f" (training.init_from={folder.path} begins with this model)" if folder.model.is_dir() else ""
        raise RecipeError(
            f"{folder.path}: a training was started here with another recipe; changed:\n{listed}{more}{harmless}\n"
            f"undo the change, choose another --run-dir{further}, or start over with --fresh"
        )
    return recipe, changes.harmless


def _is_within(key: str, outer: frozenset[str] | set[str]) -> bool:
    parts = key.split(".")
    return any(".".join(parts[:end]) in outer for end in range(1, len(parts) + 1))


def _format_value(flat: dict[str, Any], key: str) -> str:
    return json.dumps(flat[key], ensure_ascii=False) if key in flat else "absent"


def flat_keys(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every scalar of nested mappings and lists with its dotted path."""
    if not isinstance(value, dict | list) or not value:
        yield path, value
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield from flat_keys(item, f"{path}.{key}" if path else str(key))


def training_fingerprint(model: ModelConfig, training: TrainingConfig) -> str:
    """Return a hash that changes if a finished training must continue, or its final weights must be chosen again.

    Keys with their default are left out, so that a key that a later version adds does not change it.
    """
    values = without_defaults(training)
    values |= dict.fromkeys(values.pop("trackers", ()), True)  # as recipes had it before the list
    text = json.dumps([without_defaults(model), values], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def without_defaults(value: Any) -> Any:
    """Return the kind of a configuration and the values that differ from their defaults, as YAML has them."""
    if isinstance(value, list | tuple):
        return [without_defaults(item) for item in value]
    if isinstance(value, dict):
        return {key: without_defaults(item) for key, item in value.items()}
    if not dataclasses.is_dataclass(value):
        return to_plain(value)
    values = {each.name: (getattr(value, each.name), default_of(each)) for each in dataclasses.fields(value)}
    return {key: without_defaults(each) for key, (each, default) in values.items() if key == "kind" or each != default}


def validation_fingerprints(
    validation: ValidationConfig, search: SearchConfig, tokenize: str, valid: Sequence[Store]
) -> tuple[str, str]:
    """Return a hash of everything except the model that `training.validation.metric` depends on, and its former form.

    Keys of the search with their defaults are left out, so that a key that a later version adds does not change the
    hash. The former form has them; a training that was started with it keeps its validations.
    """
    text = [digest for store in valid for digest in (store.manifest.src.sha256, store.manifest.tgt.sha256)]
    content: list[Any] = [validation.metric, text]
    if not validation.pool_sets:
        content.append("the first set decides")
    if any(store.manifest.prefix for store in valid):
        content.append([store.manifest.prefix for store in valid])
    if validation.metric == "command":
        content += [validation.command, validation.command_goal]
    if validation.metric == "nll":
        return (hash_json(content),) * 2
    keys = without_defaults(search.with_plain_beam(SearchConfig().beam_size))
    former_keys = {name: to_plain(getattr(search, name)) for name in _FORMER_SEARCH_KEYS.split()}
    content += [validation.sentences, validation.beam_size]
    return hash_json([*content, keys, tokenize]), hash_json([*content, former_keys, tokenize])


def hash_json(content: Any) -> str:
    """Return the SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
