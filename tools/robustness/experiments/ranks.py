"""When a rank dies or stops, the others end within a minute with a sentence, and training continues to equal bits."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from tools.robustness.harness.client import ROOT, Outcome
from tools.robustness.harness.experiment import Ending, Trial
from tools.robustness.harness.fork_server import Job
from tools.robustness.harness.lab import Lab, difference, digests

COUNT = 180
EVENTS = ("killed", "stopped", "slow")
TIMES = 50  # of each event with forked ranks
TORCHRUN_TIMES = 10  # of each event under torchrun, which starts two interpreters
MINUTE = 60.0  # seconds within which the other ranks end
UPDATES = 6
RANK = "tools.robustness.harness.rank"
TRAIN = ("train", "tiny.yaml", "--run-dir", "run", "training.micro_batches=2", "training.batch_tokens=256")


def trials(lab: Lab, seed: int) -> list[Trial]:
    """Two ranks; the last one is killed, stopped or slow at an update."""
    rng = random.Random(seed)
    found = []
    for event in EVENTS:
        for number in range(TIMES):
            parallel, update = rng.choice(("ddp", "fsdp")), rng.randint(1, UPDATES)
            name = f"{event} {number}: {parallel}, update {update}"
            found.append(Trial(event, name, partial(_forked, lab, event, update, parallel)))
        for number in range(TORCHRUN_TIMES):
            update = rng.randint(1, UPDATES)
            name = f"torchrun, {event} {number}: update {update}"
            found.append(Trial(f"torchrun: {event}", name, partial(_torchrun, lab, event, update)))
    return found


def _undisturbed(lab: Lab, parallel: str) -> dict[str, str]:
    """Digests of a training on two ranks that nothing happened to."""
    folder = lab.folder / f"ranks-{parallel}"
    if not (folder / "finished").is_file():
        with lab.trial_folder(folder.name) as made:
            ends = _two_ranks(lab, made, "none", 0, parallel)
            assert [end.status for end in ends] == [0, 0], ends
            (made / "run").rename(lab.folder / "kept")
        folder.mkdir()
        (lab.folder / "kept").rename(folder / "run")
        (folder / "finished").touch()
    return digests(folder / "run")


def _forked(lab: Lab, event: str, update: int, parallel: str) -> Ending:
    expected = _undisturbed(lab, parallel)
    with lab.trial_folder() as folder:
        ends = _two_ranks(lab, folder, event, update, parallel)
        if fault := _fault(event, ends):
            return Ending(f"{event}: {ends[0].label()}", fault)
        again = _two_ranks(lab, folder, "none", 0, parallel)
        fault = next((fault for end in again if (fault := end.fault(frozenset({0})))), None)
        return Ending(f"{ends[0].label()}, continued", fault or _compare(folder, expected))


def _compare(folder: Path, expected: dict[str, str]) -> str | None:
    return difference(digests(folder / "run"), expected)


def _fault(event: str, ends: tuple[Outcome, Outcome]) -> str | None:
    survivor, victim = ends
    if event == "slow":
        return survivor.fault(frozenset({0})) or victim.fault(frozenset({0}))
    if victim.status not in (-signal.SIGKILL, -signal.SIGSTOP, 0):
        return f"the attacked rank ended with {victim.status}: {victim.err[-200:]}"
    # a rank that is attacked after the other has finished cannot be missed
    return survivor.fault(frozenset({0, 70}))


def _two_ranks(lab: Lab, folder: Path, event: str, update: int, parallel: str) -> tuple[Outcome, Outcome]:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = str(probe.getsockname()[1])
    environment = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    environment["TORCHELASTIC_USE_AGENT_STORE"] = "True"  # another process hosts the store, as under torchrun
    store = Job([port], str(folder), "store", function=f"{RANK}:host_store")
    host = lab.server.start(store)
    words = [event, str(update), *TRAIN, f"training.parallel={parallel}"]
    jobs = [
        Job(words, str(folder), f"rank{rank}", function=f"{RANK}:main",
            environment={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(2)
    ]  # fmt: skip
    pids = [lab.server.start(job) for job in jobs]
    first = lab.server.wait(pids[0], jobs[0], MINUTE)
    # a stopped rank does not end by itself
    second = lab.server.wait(pids[1], jobs[1], 0.1 if event == "stopped" else MINUTE)
    lab.server.kill(host)
    lab.server.wait(host, store, MINUTE)
    return first, second


def _torchrun(lab: Lab, event: str, update: int) -> Ending:
    expected = _undisturbed(lab, "ddp")
    with lab.trial_folder() as folder:
        end = _run_torchrun(folder, event, update)
        if event == "slow" and end.status:
            return Ending("slow", f"exit code {end.status}: {end.err[-300:]}")
        if event != "slow" and ("mtkit: error: " not in end.err or end.hung):
            return Ending(event, f"no message after {end.seconds:.0f} s: {end.err[-300:]}")
        again = _run_torchrun(folder, "none", 0)
        fault = None if again.status == 0 else f"not continued: {again.err[-300:]}"
        return Ending("ended, continued", fault or _compare(folder, expected))


def _run_torchrun(folder: Path, event: str, update: int) -> Outcome:
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", RANK]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [*words, event, str(update), *TRAIN, "training.parallel=ddp"]
    pipe, start = subprocess.PIPE, time.monotonic()
    with subprocess.Popen(
        command, env=environment, cwd=folder, stdout=pipe, stderr=pipe, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=2 * MINUTE)
            hung = False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            (out, err), hung = process.communicate(), True
    text = re.sub(r"\x1b\[[0-9;]*m", "", err.decode(errors="replace"))
    return Outcome(process.returncode, hung, time.monotonic() - start, out, text)
