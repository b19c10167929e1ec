"""Suggestions in error messages about unknown keys and kinds."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from mtkit.recipe.synonyms import KEY_SYNONYMS, KIND_SYNONYMS, REMOVED_KEYS
from mtkit.recipe.type_hints import has_path, key_paths

MAX_SUGGESTIONS = 3  # paths in one message


def suggest(word: str, known: Sequence[str], *, before: str = "") -> str:
    """End of a message about an unknown word: "; did you mean x?", with `before` before it, or the known words."""
    match = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {before}{match[0]}?" if match else f"; known here: {', '.join(known)}"


def suggest_kind(word: str, known: Sequence[str]) -> str:
    """End of a message about an unknown kind or choice: "; did you mean x?", or nothing."""
    synonym = KIND_SYNONYMS.get(_normalised(word), ())
    match = [kind for kind in synonym if kind in known] or difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {match[0]}?" if match else ""


def suggest_key(
    path: str, root: Any, values: Mapping[str, Any], known: Sequence[str], other_kinds: str, *, in_file: bool
) -> str:
    """End of a message about an unknown key: the key that is meant, or the known ones.

    A removed key has a sentence of its own. Otherwise a synonym of another toolkit comes first, then a key of another
    kind, a key that belongs elsewhere, a misspelt key.

    Args:
        path: of the unknown key.
        known: keys of the mapping that the unknown key stands in.
        other_kinds: kinds of that mapping that have the key; empty if none has.
        in_file: the key stands in a file, below its section; a key of the command line is a whole path.
    """
    if path in REMOVED_KEYS:
        return f"; {REMOVED_KEYS[path]}"
    section, dot, name = path.rpartition(".")
    name = _spelled(name, [*key_paths(root), *KEY_SYNONYMS])
    before = "" if in_file else section + dot
    if name in known:
        return suggest(name, known, before=before)
    synonym = synonym_of(section + dot + name, root, values)
    if synonym:
        return f"; did you mean {synonym}"
    if other_kinds:
        return f"; it is a key of kind {other_kinds}"
    in_list = any(component.isdigit() for component in path.split("."))  # its keys have no namesakes elsewhere
    elsewhere = () if in_list else key_paths(root).get(name, ())
    misplaced = _nearest(path, [each for each in elsewhere if has_path(root, each, values)])
    if 0 < len(misplaced) <= MAX_SUGGESTIONS:
        return f"; did you mean {' or '.join(misplaced)}?"
    return suggest(name, known, before=before)


def synonym_of(path: str, root: Any, values: Mapping[str, Any] | None) -> str:
    """Key or keys of mtkit that another toolkit's key stands for, with a note; empty if the key is not in the table.

    Args:
        path: of the other toolkit's key; it is looked up as a whole, then its last component.
        values: what the configuration states, to prefer keys of the kinds that it selects; None: no preference.
    """
    parent, _, name = path.rpartition(".")
    synonym = KEY_SYNONYMS.get(path) or KEY_SYNONYMS.get(_normalised(name))
    if synonym is None:
        return ""
    targets = [target for target in synonym.targets if target != path and has_path(root, target)]
    targets = [target for target in targets if has_path(root, target, values)] or targets
    siblings = [target for target in targets if target.rpartition(".")[0] == parent]
    targets = (siblings or targets)[:MAX_SUGGESTIONS]
    note = f" ({synonym.note})" if synonym.note else ""
    return f"{' or '.join(targets)}?{note}" if targets else ""


def _nearest(path: str, candidates: Sequence[str]) -> Sequence[str]:
    """Candidates in the same section as `path` if there are any, otherwise all."""
    section = path.partition(".")[0]
    return [each for each in candidates if each.partition(".")[0] == section] or candidates


def _spelled(name: str, known: Sequence[str]) -> str:
    """The known key that differs from a name only in underscores, hyphens and capitals; the name if there is none."""
    letters = _normalised(name).replace("_", "")
    return name if name in known else next((key for key in known if key.replace("_", "") == letters), name)


def _normalised(word: str) -> str:
    return word.lower().replace("-", "_")
