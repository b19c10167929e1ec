"""Hostile model and run folders are refused in one sentence, without waiting, or change nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools.robustness.experiments import flips
from tools.robustness.harness.experiment import Ending, Trial
from tools.robustness.harness.lab import RUN, Lab, difference, digests

COUNT = 600
VALUES = [None, True, -1, 0, 10**400, 1e308, "", "../../etc", "\udc80", [], [[]] * 3, {}, {"a": {"b": 1}}]
COMMANDS = {
    "model": [("translate", "run", "input"), ("score", "run", "--src", "test.en", "--tgt", "test.de"),
              ("describe", "run"), ("average", "run", "-o", "output"),
              ("export", "run", "--to", "ctranslate2", "-o", "output")],
    "finished run": [RUN, ("train", "tiny.yaml", "--run-dir", "run"), ("evaluate", "--run", "run"),
                     ("checkpoints", "run"), ("translate", "run", "input")],
    "interrupted run": [RUN, ("preprocess", "tiny.yaml", "--run-dir", "run"), ("checkpoints", "run")],
}  # fmt: skip


def _fifo(path: Path, lab: Lab) -> None:
    os.mkfifo(path)


def _folder(path: Path, lab: Lab) -> None:
    path.mkdir()


def _empty(path: Path, lab: Lab) -> None:
    path.touch()


def _loop(path: Path, lab: Lab) -> None:
    path.symlink_to(path.name)


def _broken_link(path: Path, lab: Lab) -> None:
    path.symlink_to("nowhere")


def _zeros(path: Path, lab: Lab) -> None:
    path.symlink_to("/dev/zero")


def _link_to_other(path: Path, lab: Lab) -> None:
    path.symlink_to(lab.other / "run" / "model" / path.name)


def _noise(path: Path, lab: Lab) -> None:
    path.write_bytes(bytes(range(256)) * 64)


def _deep(path: Path, lab: Lab) -> None:
    path.write_text("[" * 100_000)


REPLACEMENTS: dict[str, Callable[[Path, Lab], None]] = {
    "a pipe": _fifo, "a folder": _folder, "an empty file": _empty, "a link to itself": _loop,
    "a broken link": _broken_link, "a link to /dev/zero": _zeros, "a link to another model": _link_to_other,
    "noise": _noise, "deep brackets": _deep,
}  # fmt: skip


def trials(lab: Lab, seed: int) -> list[Trial]:
    """Each file replaced by something else, and each value of each JSON file by a value of another kind."""
    found = []
    for target, commands in COMMANDS.items():
        files = flips.files_of(lab, target)
        number = 0
        for name in files:
            for kind in REPLACEMENTS:
                words = commands[number % len(commands)]
                number += 1
                place = f"{words[0]}: {target}: {name} is {kind}"
                found.append(Trial(f"{target}: {kind}", place, partial(_replace, lab, target, name, kind, words)))
        for name, path in files.items():
            for key in _keys(json.loads(path.read_text())) if path.suffix == ".json" else ():
                value = number % len(VALUES)
                words = commands[number % len(commands)]
                number += 7  # coprime to both numbers of choices
                place = f"{words[0]}: {target}: {name}: {'.'.join(key)} = {json.dumps(VALUES[value])[:40]}"
                attempt = partial(_set, lab, target, name, key, value, words)
                found.append(Trial(f"{target}: a value of another kind", place, attempt))
    return found


def _keys(value: object, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(value, dict):
        return [above]
    return [above, *(key for name, item in value.items() for key in _keys(item, (*above, name)))]


def _source(lab: Lab, target: str) -> Path:
    return {"model": lab.sharp, "finished run": lab.golden, "interrupted run": lab.interrupted}[target]


def _replace(lab: Lab, target: str, name: str, kind: str, words: tuple[str, ...]) -> Ending:
    with lab.trial_folder(copy=_source(lab, target)) as folder:
        path = folder / "run" / name
        path.unlink()
        REPLACEMENTS[kind](path, lab)
        return _run(lab, folder, words, target)


def _set(lab: Lab, target: str, name: str, key: tuple[str, ...], value: int, words: tuple[str, ...]) -> Ending:
    with lab.trial_folder(copy=_source(lab, target)) as folder:
        path = folder / "run" / name
        content = json.loads(path.read_text())
        part = {"": content}
        for each in ("", *key)[: len(key)]:
            part = part[each]
        part[("", *key)[-1]] = VALUES[value]
        path.write_text(json.dumps(part[""] if not key else content))
        return _run(lab, folder, words, target)


def _run(lab: Lab, folder: Path, words: tuple[str, ...], target: str) -> Ending:
    before = digests_of_texts(lab)
    outcome = lab.run(words, folder)
    if fault := outcome.fault() or (None if digests_of_texts(lab) == before else "changed a file of another folder"):
        return Ending(outcome.label(), fault)
    if outcome.status:
        return Ending.of(outcome)
    if words[0] == "translate":
        expected = lab.sharp_translation if target == "model" else lab.translation
        same = outcome.out == expected
        return Ending("finished", None if same else "another translation with exit code 0")
    if words == RUN and not any(path.is_symlink() for path in (folder / "run").rglob("*")):
        found, expected_files = digests(folder / "run"), lab.golden_files
        return Ending("finished", difference(_read(found), _read(expected_files)))
    return Ending("finished")


def _read(files: dict[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in files.items() if not name.startswith("checkpoints/")}


def digests_of_texts(lab: Lab) -> dict[str, str]:
    """Digests of the model that some trials link to."""
    return digests(lab.other / "run" / "model")
