"""Changed recipes are used or refused with a message that names the key, within 10 seconds."""

from __future__ import annotations

import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tools.robustness.harness.client import ROOT
from tools.robustness.harness.experiment import Ending, Trial
from tools.robustness.harness.lab import Lab

COUNT = 500
LARGE = "wmt14-*.yaml"  # a dry run measures an update, which takes these half a minute
NUMBERS = 40  # of each recipe and mutation
ALLOWED = frozenset({0, 2, 65, 66, 78})
VALUES: list[Any] = [
    None, True, -1, 0, 1, 10**9, 10**30, -(10**30), 0.5, 1e300, "", "no", "\u2028", "x" * 5000, [], [1], {}, {"a": 1},
    {"kind": "nonsense"}, {"kind": ["rope"]}, "1e-4", "0x10", "~", "/dev/zero", "../..", "auto", "none",
]  # fmt: skip
PIECES = ["\t", ": ", "- ", "{", "]", "&a ", "*a", "!!python/object:os.system ", "\x00", "\u2028", "%", "? ", "<<: ",
          "'", '"', "|\n", "\ufeff", "---\n", "[" * 3000]  # fmt: skip
PLACES = ["value", "deletion", "name", "new key", "duplicate", "text", "override"]


def trials(lab: Lab, seed: int) -> list[Trial]:
    """Changes at random keys of the shipped recipes."""
    found = []
    for path in sorted(set((ROOT / "recipes").glob("*.yaml")) - set((ROOT / "recipes").glob(LARGE))):
        for place in PLACES:
            for number in range(NUMBERS):
                name = f"{path.stem} {place} {number}"
                found.append(Trial(place, name, partial(_mutate, lab, path, place, f"{seed} {name}")))
    return found


def _paths(value: Any, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return [key for name, item in value.items() for key in ((*above, name), *_paths(item, (*above, name)))]
    if isinstance(value, list):
        return [key for number, item in enumerate(value) for key in _paths(item, (*above, number))]
    return []


def _mutate(lab: Lab, path: Path, place: str, seed: str) -> Ending:
    rng = random.Random(seed)
    text = path.read_text()
    recipe = yaml.safe_load(text)
    key = rng.choice([key for key in _paths(recipe) if isinstance(key[-1], str)])
    value = rng.choice(VALUES)
    overrides = []
    if place == "text":
        text = _damaged(text, rng)
    elif place == "override":
        text_of_value = yaml.safe_dump(value, default_flow_style=True).partition("\n")[0]
        overrides = [f"{'.'.join(map(str, key))}={text_of_value}"]
    elif place == "duplicate":
        text += f"\n{key[0]}: {yaml.safe_dump(value, default_flow_style=True)}"
    else:
        key = _change(recipe, key, value, place)
        text = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True)
    with lab.trial_folder() as folder:
        for base in (ROOT / "recipes").glob("*.yaml"):
            (folder / base.name).symlink_to(base)
        (folder / "recipe.yaml").write_text(text.replace("root: ../data", f"root: {ROOT}/data"))
        outcome = lab.run(("run", "recipe.yaml", "--dry-run", *overrides), folder)
    fault = outcome.fault(ALLOWED)
    if fault is None and outcome.status == 78 and place != "text" and not _names(outcome.message, key):
        fault = f"the message does not name {'.'.join(map(str, key))}: {outcome.message[:200]}"
    return Ending(outcome.label(), fault)


def _names(message: str, key: tuple[str | int, ...]) -> bool:
    """True if a message names a part of the key, or, after a deletion, a key that is missing."""
    return ": missing" in message or any(re.search(rf"\b{re.escape(str(part))}\b", message) for part in key)


def _change(recipe: Any, key: tuple[str | int, ...], value: Any, place: str) -> tuple[str | int, ...]:
    *above, last = key
    for part in above:
        recipe = recipe[part]
    if place == "value":
        recipe[last] = value
    elif place == "new key":
        last = f"{last}s"
        recipe[last] = value
    else:
        content = recipe.pop(last)
        if place == "name":
            last = str(last)[:-1] + "x"
            recipe[last] = content
    return (*above, last)


def _damaged(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text))
    piece = rng.choice(PIECES)
    return text[:start] + piece + text[start + rng.choice([0, 0, 5]) :]
