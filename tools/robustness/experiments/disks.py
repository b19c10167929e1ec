"""On a full disk a command ends with exit code 74 and one sentence, and the same command continues with more room."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tools.robustness.harness.experiment import Ending, Trial
from tools.robustness.harness.lab import RUN, Lab, difference, digests

COUNT = 128
SIZES = 64  # of the disk of a run
OTHERS = {
    "translate": ("translate", "golden", "input", "-o", "output"),
    "average": ("average", "golden/checkpoints/update-00000004", "golden/checkpoints/update-00000006", "-o", "output"),
    "train-bpe": ("train-bpe", "train.en", "--vocab-size", "160", "-o", "output"),
    "evaluate": ("evaluate", "test.de", "--ref", "test.de", "--json", "output"),
    "compress": ("compress", "golden/model", "--to", "bf16", "-o", "output"),
    "export": ("export", "golden/model", "--to", "ctranslate2", "-o", "output"),
    "finetune": (
        *("finetune", "golden/model", "other.en", "other.de", "--valid", "valid.en", "valid.de"),
        *("--test", "test.en", "test.de", "-o", "output", "training.max_updates=4"),
    ),
}


def trials(lab: Lab, seed: int) -> list[Trial]:
    """Disks of equally spaced sizes, from nothing to all that an undisturbed command writes."""
    size = sum(path.stat().st_size for path in (lab.golden / "run").rglob("*") if path.is_file())
    found = [Trial("run", f"run with {room:,} bytes", partial(_run, lab, room))
             for room in (2 * size * number // SIZES for number in range(SIZES))]  # fmt: skip
    for name, words in OTHERS.items():
        for number in range(16):
            room = int(2.4**number) - 1  # up to 503 kB
            found.append(Trial(name, f"{name} with {room:,} bytes", partial(_command, lab, words, room)))
    return found


def _run(lab: Lab, room: int) -> Ending:
    with lab.trial_folder() as folder:
        full = lab.run(RUN, folder, attack={"kind": "full_disk", "room": room})
        if fault := full.fault(frozenset({0, 74})):
            return Ending(full.label(), fault)
        again = lab.run(RUN, folder)
        fault = again.fault(frozenset({0})) or difference(digests(folder / "run"), lab.golden_files)
        return Ending(f"{full.label()}, continued", fault)


def _command(lab: Lab, words: tuple[str, ...], room: int) -> Ending:
    with lab.trial_folder() as folder:
        (folder / "golden").symlink_to(lab.golden / "run")
        if words[0] == "translate":
            (folder / "output").write_text("before\n")
        full = lab.run(words, folder, attack={"kind": "full_disk", "room": room})
        if fault := full.fault(frozenset({0, 74})):
            return Ending(full.label(), fault)
        if fault := _lost(folder, full.status):
            return Ending(full.label(), fault)
        again = lab.run(words, folder)
        return Ending(f"{full.label()}, repeated", again.fault(frozenset({0})) or _left(folder))


def _lost(folder: Path, status: int) -> str | None:
    """What an earlier output became: it may only be replaced by a complete one."""
    output = folder / "output"
    if status and output.is_file() and output.read_bytes() != b"before\n":
        return "an incomplete output has the name of a complete one"
    return None


def _left(folder: Path) -> str | None:
    left = sorted(path.name for path in folder.iterdir() if path.name.endswith((".tmp", ".part", ".old")))
    return f"left behind: {', '.join(left)}" if left else None
