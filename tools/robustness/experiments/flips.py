"""Damaged files never change a result silently: the same output, a repair, or a refusal in one sentence."""

from __future__ import annotations

import random
import shutil
from functools import partial
from pathlib import Path

from tools.robustness.harness.experiment import Ending, Trial
from tools.robustness.harness.lab import RUN, Lab, difference, digests

COUNT = 20_000
TEXTS = {".json", ".yaml"}
BINARY_FLIPS, TRUNCATIONS = 2_000, 200
UNREAD = {".lock", "log.jsonl", "README.md"}
TARGETS = ("model", "finished run", "interrupted run")


def trials(lab: Lab, seed: int) -> list[Trial]:
    """Single-bit flips, truncations, deletions and exchanged files of a model and of two run folders."""
    rng = random.Random(seed)
    found = []
    for target in TARGETS:
        sizes = {name: path.stat().st_size for name, path in files_of(lab, target).items()}
        for name, size in sizes.items():
            if Path(name).suffix in TEXTS:
                found += [_trial(lab, target, "flip of text", f"{name}:{byte}:{bit}")
                          for byte in range(size) for bit in range(8)]  # fmt: skip
        binary = [name for name, size in sizes.items() if size and Path(name).suffix not in TEXTS]
        for _ in range(BINARY_FLIPS // len(TARGETS)):
            name = rng.choice(binary)
            found.append(_trial(lab, target, "flip", f"{name}:{rng.randrange(sizes[name])}:{rng.randrange(8)}"))
        for _ in range(TRUNCATIONS // len(TARGETS)):
            name = rng.choice([each for each in sizes if sizes[each]])
            found.append(_trial(lab, target, "truncation", f"{name}:{rng.randrange(sizes[name])}"))
        for name in sizes:
            found += [_trial(lab, target, "deletion", name), _trial(lab, target, "exchange", name)]
    return list({trial.name: trial for trial in found}.values())


def files_of(lab: Lab, target: str) -> dict[str, Path]:
    """The files of a target that its command reads."""
    folder = {"model": lab.sharp, "finished run": lab.golden, "interrupted run": lab.interrupted}[target] / "run"
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: path for name, path in files.items() if path.name not in UNREAD and path.suffix != ".png"}


def _trial(lab: Lab, target: str, kind: str, place: str) -> Trial:
    return Trial(f"{target}: {kind}", f"{target}: {kind} {place}", partial(_damage, lab, target, kind, place))


def _damage(lab: Lab, target: str, kind: str, place: str) -> Ending:
    source = {"model": lab.sharp, "finished run": lab.golden, "interrupted run": lab.interrupted}[target]
    with lab.trial_folder(copy=source) as folder:
        if not damage(folder / "run", kind, place, lab.other / "run"):
            return Ending("no such file in the other")
        if target == "model":
            return _translate(lab, folder)
        outcome = lab.run(RUN, folder)
        if outcome.status != 0 or outcome.fault():
            return Ending.of(outcome)
        unread = ("checkpoints/",) if target == "finished run" else ()  # a finished training reads no checkpoint
        found, expected = (
            {name: digest for name, digest in files.items() if not name.startswith(unread)}
            for files in (digests(folder / "run"), lab.golden_files)
        )
        changed = difference(found, expected)
        return Ending("repaired or not read", changed)


def _translate(lab: Lab, folder: Path) -> Ending:
    outcome = lab.run(("translate", "run", "input"), folder)
    if outcome.status != 0 or outcome.fault():
        return Ending.of(outcome)
    same = outcome.out == lab.sharp_translation
    return Ending("same translation", None if same else "another translation with exit code 0")


def damage(folder: Path, kind: str, place: str, other: Path) -> bool:
    """Damage a file; False if that is not possible."""
    name, *numbers = place.split(":")
    path = folder / name
    if kind == "deletion":
        path.unlink()
    elif kind == "exchange":
        if not (other / name).is_file():
            return False
        shutil.copyfile(other / name, path)
    elif kind == "truncation":
        path.write_bytes(path.read_bytes()[: int(numbers[0])])
    else:
        content = bytearray(path.read_bytes())
        content[int(numbers[0])] ^= 1 << int(numbers[1])
        path.write_bytes(content)
    return True
