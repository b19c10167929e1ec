"""Killed at any file operation or moment, `mtkit run` ends with the same bytes when it is run again."""

from __future__ import annotations

import random
import signal
from functools import partial
from pathlib import Path

from tools.robustness.harness.client import Outcome
from tools.robustness.harness.experiment import Ending, Trial
from tools.robustness.harness.lab import RUN, Lab, difference, digests, process_free

COUNT = 1200
MOMENTS = 200  # kills at random times


def trials(lab: Lab, seed: int) -> list[Trial]:
    """Before each operation, in the middle of each write, and at random times.

    A kill after an operation is the one before the next.
    """
    found = []
    for number, (name, subject) in enumerate(lab.listing(RUN), 1):
        place = f"{number} ({name} {process_free(subject)})"
        found.append(Trial("before an operation", f"before {place}", partial(_kill_at, lab, "kill", number)))
        if name == "write":
            found.append(Trial("within a write", f"within {place}", partial(_kill_at, lab, "torn", number)))
    rng = random.Random(seed)
    for _ in range(MOMENTS):
        share = rng.random()
        found.append(Trial("at a random time", f"at {share:.4f} of a run", partial(_kill_after, lab, share)))
    return found


def _kill_at(lab: Lab, kind: str, operation: int) -> Ending:
    with lab.trial_folder() as folder:
        killed = lab.run(RUN, folder, attack={"kind": kind, "operation": operation})
        return _continue(lab, folder, killed)


def _kill_after(lab: Lab, share: float) -> Ending:
    with lab.trial_folder() as folder:
        killed = lab.server.run_with_signal(RUN, folder, signal.SIGKILL, share * lab.seconds)
        return _continue(lab, folder, killed)


def _continue(lab: Lab, folder: Path, killed: Outcome) -> Ending:
    if killed.status not in (0, -signal.SIGKILL):
        return Ending.of(killed, f"ended with {killed.status} before it was killed")
    again = lab.run(RUN, folder)
    if fault := again.fault(frozenset({0})):
        return Ending("not continued", fault)
    label = "finished before" if killed.status == 0 else "continued"
    return Ending(label, difference(digests(folder / "run"), lab.golden_files))
