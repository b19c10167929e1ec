"""A signal ends a command with its exit code and one sentence, and the same command then ends as if undisturbed."""

from __future__ import annotations

import random
import shutil
import signal
from functools import partial
from pathlib import Path

from tools.robustness.harness.client import Outcome
from tools.robustness.harness.experiment import Ending, Trial
from tools.robustness.harness.lab import RUN, Lab, difference, digests

COUNT = 600
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
COMMANDS = {
    "run": RUN,
    "train": ("train", "tiny.yaml", "--run-dir", "run"),
    "preprocess": ("preprocess", "tiny.yaml", "--run-dir", "run"),
    "translate": ("translate", "golden", "input", "-o", "output"),
    "evaluate": ("evaluate", "--run", "run"),
}
MOMENTS = 20  # for each command and signal


def trials(lab: Lab, seed: int) -> list[Trial]:
    """At any file operation of a command, and at random times."""
    rng = random.Random(seed)
    found = []
    for name, words in COMMANDS.items():
        count = len(lab.listing(words, partial(_prepare, lab, name)))
        for number in SIGNALS:
            group = f"{name}: {number.name}"
            for operation in sorted(rng.sample(range(1, count + 1), min(MOMENTS, count))):
                place = f"{group} before operation {operation}"
                found.append(Trial(group, place, partial(_at, lab, name, number, operation)))
            for _ in range(MOMENTS // 2):
                share = rng.random()
                found.append(Trial(group, f"{group} after {share:.4f}", partial(_after, lab, name, number, share)))
    return found


def _prepare(lab: Lab, name: str, folder: Path) -> None:
    (folder / "golden").symlink_to(lab.golden / "run")
    if name == "evaluate":
        shutil.copytree(lab.golden / "run", folder / "run")
        (folder / "run/hyps/tiny.txt").unlink()


def _at(lab: Lab, name: str, number: signal.Signals, operation: int) -> Ending:
    with lab.trial_folder() as folder:
        _prepare(lab, name, folder)
        attack = {"kind": "signal", "operation": operation, "number": int(number)}
        return _continue(lab, name, folder, number, lab.run(COMMANDS[name], folder, attack=attack))


def _after(lab: Lab, name: str, number: signal.Signals, share: float) -> Ending:
    with lab.trial_folder() as folder:
        _prepare(lab, name, folder)
        ended = lab.server.run_with_signal(COMMANDS[name], folder, int(number), share * lab.seconds)
        if ended.status == -number and ended.err == "" and share < 0.1:
            return Ending("before the program began")
        return _continue(lab, name, folder, number, ended)


def _continue(lab: Lab, name: str, folder: Path, number: signal.Signals, ended: Outcome) -> Ending:
    if fault := ended.fault(frozenset({0, 128 + number})):
        return Ending(ended.label(), fault)
    again = lab.run(COMMANDS[name], folder)
    if fault := again.fault(frozenset({0})):
        return Ending(f"{ended.label()}, not continued", fault)
    return Ending(f"{ended.label()}, continued", _changed(lab, name, folder))


def _changed(lab: Lab, name: str, folder: Path) -> str | None:
    if name == "translate":
        same = (folder / "output").read_bytes() == lab.translation
        left = [path.name for path in folder.glob("*.part")]
        return f"left behind: {left[0]}" if left else None if same else "another translation"
    found = digests(folder / "run")
    expected = lab.golden_files
    if name in ("train", "preprocess"):  # earlier stages only
        expected = {file: expected[file] for file in found if file in expected and file != "report.json"}
        found = {file: digest for file, digest in found.items() if file != "report.json"}
        expected = {file: digest for file, digest in expected.items() if not _is_later(file)}
        found = {file: digest for file, digest in found.items() if not _is_later(file)}
    return difference(found, expected)


def _is_later(file: str) -> bool:
    """True if the stages after training change a file that training writes."""
    return file in ("fingerprints.json", "model/README.md", "log.jsonl") or file.endswith(".png")
