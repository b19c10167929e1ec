"""Two recipes compared: what a training that was begun with the one does not survive in the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mtkit.pipeline.validation_fingerprint import OF_BLEU
from mtkit.recipe.recipe import Recipe, plain
from mtkit.training.config import harmless_keys

# files are compared by their content, elsewhere; valid and test sets, search and scores may change at any time, if
# training does not depend on them
_NOT_COMPARED = frozenset({"name", "search", "evaluation", "corpus.valid", "corpus.test"})


@dataclass(frozen=True)
class Changes:
    """The keys that differ, each as "key: old, now new", in the order of the recipe.

    Attributes:
        fatal: those that the training does not survive.
        harmless: those that it does.
    """

    fatal: list[str]
    harmless: list[str]


def changes(before: Recipe, after: Recipe) -> Changes:
    """What differs between two recipes but for the paths of training text.

    Harmless are those keys that `training.config.harmless_keys` names for both recipes.
    """
    harmless = harmless_keys(before.training) & harmless_keys(after.training)
    skipped = _NOT_COMPARED | {f"training.{key}" for key in harmless}
    learned = _learned(before)
    old, new = dict(_flat(plain(before), "")), dict(_flat(plain(after), ""))
    kinds = [key.removesuffix("kind") for key in old if key.endswith(".kind") and key in new and old[key] != new[key]]
    found = Changes([], [])
    for key in [*old, *(key for key in new if key not in old)]:
        within = any(key.startswith(kind) and key != f"{kind}kind" for kind in kinds)  # the kind says it all
        if _same(old, new, key) or within or _is_path(key):
            continue
        change = f"{key}: {_said(old, key)}, now {_said(new, key)}"
        is_harmless = _is_within(key, skipped) and not _is_within(key, learned)
        (found.harmless if is_harmless else found.fatal).append(change)
    return found


def _learned(recipe: Recipe) -> set[str]:
    """Keys of search and evaluation that this training learns from, or whose rate depends on them."""
    training = recipe.training
    drawn = {"search.max_length"} if training.objective.kind == "minimum_risk" else set()  # it translates
    is_judged = training.schedule.kind == "plateau" and training.validation.metric == "bleu"
    return drawn | (OF_BLEU if is_judged else set())


def _is_path(key: str) -> bool:
    parts = key.split(".")
    return key == "corpus.root" or (parts[:2] == ["corpus", "train"] and parts[-1] in ("src", "tgt", "text"))


def _is_within(key: str, outer: frozenset[str] | set[str]) -> bool:
    parts = key.split(".")
    return any(".".join(parts[:end]) in outer for end in range(1, len(parts) + 1))


def _same(old: dict[str, Any], new: dict[str, Any], key: str) -> bool:
    return key in old and key in new and old[key] == new[key]


def _said(flat: dict[str, Any], key: str) -> str:
    return json.dumps(flat[key], ensure_ascii=False) if key in flat else "not there"


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every scalar of nested mappings and lists by its path."""
    if not isinstance(value, dict | list) or not value:
        yield path, value
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield from _flat(item, f"{path}.{key}" if path else str(key))
