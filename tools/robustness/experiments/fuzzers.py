"""Every reader of a file returns a value or refuses it with an error of mtkit, for any content."""

from __future__ import annotations

import shutil
from functools import partial

from tools.robustness.harness.experiment import Ending, Trial
from tools.robustness.harness.lab import Lab

COUNT = 960
ROUNDS = 60  # of each reader
SECONDS = 10.0  # of a round: ten minutes of each reader
NAMES = (
    "recipe", "config.json", "model folder", "report.json", "fingerprints.json", "version.json", "safetensors",
    "sentencepiece", "corpus manifest", "corpus column", "checkpoint", "checkpoint state", "lexicon", "constraints",
    "log", "text",
)  # fmt: skip


def trials(lab: Lab, seed: int, *, seconds: float = SECONDS) -> list[Trial]:
    """Rounds of each reader."""
    return [Trial(name, f"{name} round {number}", partial(_fuzz, lab, name, 1000 * (seed * ROUNDS + number), seconds))
            for name in NAMES for number in range(ROUNDS)]  # fmt: skip


def _fuzz(lab: Lab, name: str, seed: int, seconds: float) -> Ending:
    golden = lab.golden / "run"
    with lab.trial_folder("fuzzed") as folder:
        shutil.copytree(golden, folder / "run")
        words = (name, str(folder / "run"), str(seed), str(seconds))
        function = "tools.robustness.harness.readers:fuzz"
        outcome = lab.run(words, folder, limit=6 * (seconds + lab.limit), function=function)
        if outcome.hung or outcome.status:
            return Ending("another error", f"exit code {outcome.status}: {outcome.err[:2000] or 'hung'}")
        return Ending("read or refused", tries=int(outcome.out or b"0"))
