"""Suggestions in error messages about unknown keys and kinds."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin

from mtkit import errors
from mtkit.recipe.synonyms import (
    ABBREVIATIONS,
    AFFIXES,
    ANSWERS_OF_MODELS,
    KEY_SYNONYMS,
    KIND_SYNONYMS,
    NOISE,
    OTHER_ANSWERS,
    PARTS,
    WRITTEN_KINDS,
)
from mtkit.recipe.type_hints import field_types, has_path, key_paths, strip_annotated, unwrap_hint, walk_keys

MAX_SUGGESTIONS = 3  # paths in one message
MISSPELT = 0.8  # similarity of letters at which a key is taken for misspelt
SAME_SECTION, ANY_SECTION = 0.5, 0.3  # similarity of words: before synonyms of other sections, and at last
OPTION = 0.4  # similarity of words of an option
OTHER_SECTION = 0.6  # weight of the squared similarity of a key of another section
SAME = 0.01  # of a kind, which comes before keys that share its words
RARE = 3.0  # weight of a part that no known word has


def suggest(word: str, known: Sequence[str], *, before: str = "") -> str:
    """End of a message about an unknown word: "; did you mean x?", with `before` before it, or the known words."""
    match = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {before}{match[0]}?" if match else f"; known here: {', '.join(known)}"


def suggest_kind(word: str, known: Sequence[str], path: str = "") -> str:
    """End of a message about an unknown kind or choice at a path: "; did you mean x?", "; write y", or nothing."""
    if _normalised(word) in WRITTEN_KINDS:
        key, text = WRITTEN_KINDS[_normalised(word)]
        return f"; write {text}" if path == key else f"; write {key}: {text}"
    synonym = KIND_SYNONYMS.get(_normalised(word), ())
    match = [kind for kind in synonym if kind in known] or difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {match[0]}?" if match else ""


def suggest_key(
    path: str, root: Any, values: Mapping[str, Any], known: Sequence[str], other_kinds: str, *, in_file: bool
) -> str:
    """End of a message about an unknown key: the key that is meant, or the known ones.

    A synonym of another toolkit comes first, if it is in the same section, then a key of another kind, the option of
    this name, a key of this section with similar words, a synonym or a key of another section, a misspelt key, a key of
    the section that the name begins with, a synonym of an option, and what has the most similar words in any section.

    Args:
        path: of the unknown key.
        known: keys of the mapping that the unknown key stands in.
        other_kinds: kinds of that mapping that have the key; empty if none has.
        in_file: the key stands in a file, below its section; a key of the command line is a whole path.
    """
    section, dot, name = path.rpartition(".")
    names = [*key_paths(root), *KEY_SYNONYMS, *WRITTEN_KINDS, *OTHER_ANSWERS]
    if name not in names and path not in names:  # it may differ in underscores and capitals alone
        letters = _normalised(name).replace("_", "")
        name = next((key for key in names if key.replace("_", "") == letters), name)
        name = _without_affixes(name, [*names, *(each.removeprefix(f"{section}.") for each in KEY_SYNONYMS)])
    before = "" if in_file else section + dot
    if name in known:
        return suggest(name, known, before=before)
    if answer := other_answer(path, root, exact=True):
        return f"; {answer}"
    if name not in key_paths(root) and (written := suggest_kind(name, ())):
        return written
    synonym = synonym_of(section + dot + name, root, values)
    if synonym and (synonym.startswith(section) or section + dot + name in KEY_SYNONYMS):
        return f"; did you mean {synonym}"
    if other_kinds and not synonym:
        return f"; it is a key of kind {other_kinds}"
    paths = key_paths(root).get(name, ())
    is_recipe = "corpus" in field_types(root)  # a study is no argument of the commands whose options are meant
    in_list = any(component.isdigit() for component in path.split("."))  # its keys have no namesakes elsewhere
    if not in_list and not (synonym and synonym.startswith(section)):
        in_section = any(each.partition(".")[0] == path.partition(".")[0] for each in paths)
        if not in_section and is_recipe and (option := errors.option_for(section, name, not paths and not synonym)):
            return f"; {option}"
    if not (synonym or paths) and (answer := other_answer(section + dot + name, root)):
        return f"; {answer}"
    if not in_list and (similar := _similar_keys(section, name, root, values, SAME_SECTION)):
        return f"; did you mean {similar}"
    if synonym:
        return f"; did you mean {synonym}"
    misplaced = [each for each in (() if in_list else paths) if has_path(root, each, values)]
    top = path.partition(".")[0]  # keys of the same section come first
    misplaced = [each for each in misplaced if each.partition(".")[0] == top] or misplaced
    if 0 < len(misplaced) <= MAX_SUGGESTIONS:
        return f"; did you mean {' or '.join(misplaced)}?"
    if match := difflib.get_close_matches(name, known, n=1, cutoff=MISSPELT):
        return f"; did you mean {before}{match[0]}?"
    if named := "" if in_list else _in_named_section(name, root, values):
        return f"; did you mean {named}"
    if not in_list and is_recipe and (option := errors.option_for(section, name)):
        return f"; {option}"
    similar = "" if in_list else _similar_keys(section, name, root, values, ANY_SECTION)
    return f"; did you mean {similar}" if similar else suggest(name, known, before=before)


def _without_affixes(name: str, names: Sequence[str]) -> str:
    """A name without beginnings and ends that change nothing, such as use_rope or adam_betas_value, if it is known."""
    rest, parts = name, _normalised(name).split("_")
    while len(parts) > 1 and rest not in names and (parts[0] in AFFIXES[0].split() or parts[-1] in AFFIXES[1].split()):
        parts = parts[1:] if parts[0] in AFFIXES[0].split() else parts[:-1]
        rest = "_".join(parts)
    return rest if rest in names else name


def other_answer(path: str, root: Any, *, exact: bool = False, of_training: bool = True) -> str:
    """The answer to a word that no key answers, with the names of kinds; empty if there is none.

    Args:
        path: of the unknown key.
        root: the configuration.
        exact: whether words that have all parts of a known one do not count.
        of_training: whether words of corpora, models and trainings count.
    """
    section, _, name = path.rpartition(".")
    name = _normalised(name)
    answer = OTHER_ANSWERS.get(path) or OTHER_ANSWERS.get(name, "")
    if not of_training and name not in ANSWERS_OF_MODELS:
        answer = ""
    if not (answer or exact):
        of_keys, parts = {part for key in key_paths(root) for part in word_parts(key)}, word_parts(name)
        known = {word: word_parts(word.rpartition(".")[2]) for word in OTHER_ANSWERS}
        matches = [
            word
            for word, each in known.items()
            if (of_training or word in ANSWERS_OF_MODELS)
            and each <= parts
            and (len(each) > 1 or not each <= of_keys)
            and word.startswith(f"{section}." if "." in word else "")
        ]
        answer = OTHER_ANSWERS[max(matches, key=lambda word: len(known[word]))] if matches else ""
    if "*" in answer:
        key = answer.rpartition(" is *")[0].rpartition(" ")[2]
        kinds = (get_args(hint)[0] for each, hint, _ in walk_keys(root) if each == key)
        answer = answer.replace("*", ", ".join(dict.fromkeys(kinds)))
    return answer


def _in_named_section(name: str, root: Any, values: Mapping[str, Any]) -> str:
    """The keys, as a question, of a name that begins with a word for its section, such as generation_num_beams."""
    head, _, rest = name.partition("_")
    section = head if head in field_types(root) else KEY_SYNONYMS[head].targets[0] if head in KEY_SYNONYMS else ""
    if not rest or section not in field_types(root):
        return ""
    if has_path(root, f"{section}.{rest}"):
        return f"{section}.{rest}?"
    return synonym_of(f"{section}.{rest}", root, values) or _similar_keys(section, rest, root, values, SAME_SECTION)


def keys_of_option(option: str, root: Any, sections: Sequence[str] = (), *, exact: bool = False) -> list[str]:
    """The keys that an option of another program stands for, such as --warmup-updates; the most probable ones alone.

    Args:
        option: with its dashes.
        root: the configuration.
        sections: of the keys that count; none: all.
        exact: whether similar words do not count.
    """
    word = _normalised(option.lstrip("-"))

    def of_sections(paths: Iterable[str]) -> list[str]:
        return [path for path in paths if not sections or path.partition(".")[0] in sections][:MAX_SUGGESTIONS]

    if word in KEY_SYNONYMS and (found := of_sections(KEY_SYNONYMS[word].targets)):
        return found
    if found := of_sections(path for path in key_paths(root).get(word, ()) if has_path(root, path, {})):
        return found
    names = (f"{section}.{word}" for section in field_types(root))
    if found := of_sections(path for name in names if name in KEY_SYNONYMS for path in KEY_SYNONYMS[name].targets):
        return found
    near = [] if exact else _nearest_keys(sections[0] if sections else "", word, root, {}, OPTION)[0]
    return of_sections(path for path in near if "." in path)


class _Entry(NamedTuple):
    """Words that a key is found by.

    Attributes:
        kind: of the innermost mapping that the key needs; empty if there is none.
        note: a difference in meaning, or the value that is meant.
        is_key: the words are the key's own.
    """

    parts: frozenset[str]
    path: str
    kind: str
    note: str
    is_key: bool = False


def _similar_keys(section: str, name: str, root: Any, values: Mapping[str, Any], least: float) -> str:
    """The nearest keys as a question, with their notes: "a.b or a.c? (with kind: x)"; empty if none is near enough."""
    paths, notes = _nearest_keys(section, name, root, values, least)
    return (f"{' or '.join(paths)}?" + (f" ({'; '.join(notes)})" if notes else "")) if paths else ""


def _nearest_keys(
    section: str, name: str, root: Any, values: Mapping[str, Any], least: float
) -> tuple[list[str], list[str]]:
    """The keys and kinds whose words have most in common with a name, and notes; none if they have less than `least`.

    Searched are all keys, also below kinds that are not chosen, the words of other toolkits, and the kinds. A part that
    many words have counts less, and another section counts less than the square of the similarity; a key of the section
    that has all parts of the name is nearer.
    """
    entries, weights = _entries(root)
    parts = word_parts(name)
    top = section.partition(".")[0]
    scores: dict[_Entry, float] = {}
    for entry in entries:
        if entry.path == f"{section}.{name}" or (entry.path == section and not entry.note.startswith("with kind")):
            continue
        common, total = (
            sum(weights.get(part, RARE) for part in each) for each in (parts & entry.parts, parts | entry.parts)
        )
        score = common / total
        if entry.is_key and parts <= entry.parts:
            score = (1 + score) / 2
        score += SAME * (len(parts) > 1 and entry.note.startswith("with kind"))
        scores[entry] = (
            score if entry.path.partition(".")[0] == top or not top else OTHER_SECTION * (common / total) ** 2
        )
    best = max(scores.values(), default=0.0)
    if best < least:
        return [], []
    found = {
        entry.path: entry
        for entry in sorted(scores, key=lambda each: -has_path(root, each.path, values))
        if scores[entry] == best
    }
    selected = [path for path in found if has_path(root, path, values)]
    paths = (selected or [*found])[:MAX_SUGGESTIONS]
    entry = found[paths[0]]
    notes = [f"with kind: {entry.kind}"] if entry.kind and not selected else []
    return paths, [*notes, *([entry.note] if entry.note else [])]


@cache
def _entries(root: Any) -> tuple[list[_Entry], dict[str, float]]:
    """Entries that are searched for keys, and the weight of each part: the logarithm of its rarity."""
    entries, values = [], dict[tuple[str, str, str], None]()  # path of a key, kind or word that it takes, and a note
    for path, hint, kind in walk_keys(root):
        parent, _, name = path.rpartition(".")
        if name == "kind":
            values[parent, get_args(hint)[0], f"with kind: {get_args(hint)[0]}"] = None
            continue
        entries.append(_Entry(word_parts(name), path, kind, "", is_key=True))
        if "." in parent:  # also with the names of the mapping or of its kind, as in adam_beta1 or layer_norm_eps
            above = word_parts(parent.rpartition(".")[2])
            entries += [
                _Entry(word_parts(name) | each, path, kind, "")
                for each in (above, word_parts(kind), above | word_parts(kind))
            ]
        members = map(strip_annotated, unwrap_hint(hint).members)
        words = [word for each in members if get_origin(each) is Literal for word in get_args(each)]
        values |= {(path, word, f"the value {word}"): None for word in words if isinstance(word, str)}
    entries += [_Entry(word_parts(value), path, "", note) for path, value, note in values]
    names = [(word, kind) for word, stands_for in KIND_SYNONYMS.items() for kind in stands_for]
    entries += [
        _Entry(word_parts(word), path, "", note)
        for word, kind in names
        for path, value, note in values
        if value == kind
    ]
    for word, synonym in KEY_SYNONYMS.items():
        targets = [target for target in synonym.targets if "." not in word and has_path(root, target)]
        entries += [_Entry(word_parts(word), target, "", synonym.note) for target in targets]
    counts = Counter(part for entry in entries for part in entry.parts)
    return entries, {part: math.log(len(entries) / count) for part, count in counts.items()}


@cache
def word_parts(word: str) -> frozenset[str]:
    """The words that a key consists of, in their main forms: enc_hid_dim is encoder, hidden, dim; stopping is stop."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-. ]", "_", word).lower()
    long = "_".join(ABBREVIATIONS.get(part, part) for part in spaced.split("_"))
    singular = [re.sub(r"(?<=[^s]{3})s$", "", part) for part in long.split("_") if part]
    singular = [part for part in singular if part not in NOISE] or singular
    return frozenset(PARTS[part] if part in PARTS else _stem(part) for part in singular)


def _stem(part: str) -> str:
    """A part without the ending of a verb, unless other parts are compared as it is: averaging is averag."""
    if part in PARTS.values():
        return part
    return re.sub(r"(?<=.{4})(?:i[sz]ation|ation|i[sz]e|ing|e)$", "", re.sub(r"(\w)\1ing$", r"\1", part))


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
    targets = [target for target in synonym.targets if target not in (path, parent) and has_path(root, target)]
    targets = [target for target in targets if has_path(root, target, values)] or targets
    siblings = [target for target in targets if target.rpartition(".")[0] == parent]
    targets = (siblings or targets)[:MAX_SUGGESTIONS]
    note = f" ({synonym.note})" if synonym.note else ""
    return f"{' or '.join(targets)}?{note}" if targets else ""


def _normalised(word: str) -> str:
    return word.lower().replace("-", "_")
