"""Of two processes that write to one place, one wins completely; the contents are never mixed."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.robustness.harness.client import Outcome
from tools.robustness.harness.experiment import Ending, Trial
from tools.robustness.harness.fork_server import Job
from tools.robustness.harness.lab import Lab, difference, digests

COUNT = 400
PLACES = 40  # pauses of each command
RUN = ("run", "tiny.yaml", "--run-dir", "output")
SECONDS = 60.0  # for a process to reach its pause


@dataclass(frozen=True)
class Pair:
    """Two commands that write different contents to one place.

    Attributes:
        hidden: packages that both do not find.
        codes: exit codes that the slower may end with.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    codes: frozenset[int] = frozenset({0, 75})
    hidden: tuple[str, ...] = ("matplotlib",)


UPDATES = ("golden/checkpoints/update-00000004", "golden/checkpoints/update-00000006")
PAIRS = {
    "run folder": Pair(RUN, (*RUN, "training.seed=2"), frozenset({0, 75, 78})),
    "translate -o": Pair(
        ("translate", "golden", "input", "-o", "output"), ("translate", "sharp", "test.en", "-o", "output")
    ),
    "average -o": Pair(("average", UPDATES[0], "-o", "output"), ("average", UPDATES[1], "-o", "output")),
    "export -o": Pair(
        ("export", "golden", "--to", "ctranslate2", "-o", "output"),
        ("export", "sharp", "--to", "ctranslate2", "-o", "output"),
    ),
    "train-bpe -o": Pair(
        ("train-bpe", "train.en", "--vocab-size", "160", "-o", "output"),
        ("train-bpe", "train.de", "--vocab-size", "170", "-o", "output"),
    ),
    "evaluate --json": Pair(
        ("evaluate", "test.de", "--ref", "test.de", "--json", "output"),
        ("evaluate", "valid.de", "--ref", "test.de", "--json", "output"),
    ),
    "plot -o": Pair(
        ("plot", "golden", "-o", "output.png"),
        ("plot", "golden", "--attention", "A dog.", "-o", "output.png"),
        hidden=(),
    ),
}


def trials(lab: Lab, seed: int, *, names: Iterable[str] = PAIRS) -> list[Trial]:
    """The second process runs as a whole between two file operations of the first."""
    found = []
    for name in names:
        pair = PAIRS[name]
        count = len(lab.listing(pair.first, partial(_prepare, lab), hidden=pair.hidden))
        step = max(1, count // PLACES)
        for operation in range(1, count + 1, step):
            trial = f"{name}: the other before operation {operation}"
            found.append(Trial(name, trial, partial(_interleave, lab, name, operation)))
    return found


def _prepare(lab: Lab, folder: Path) -> None:
    (folder / "golden").symlink_to(lab.golden / "run")
    (folder / "sharp").symlink_to(lab.sharp / "run")


def _interleave(lab: Lab, name: str, operation: int) -> Ending:
    pair = PAIRS[name]
    expected = [_alone(lab, name, pair, words) for words in (pair.first, pair.second)]
    with lab.trial_folder() as folder:
        _prepare(lab, folder)
        pause = folder.with_suffix(".pause")
        pause.unlink(missing_ok=True)
        attack = {"kind": "pause", "operation": operation, "file": str(pause)}
        job = Job(list(pair.first), str(folder), output="first", attack=attack, hidden=pair.hidden)
        pid = lab.server.start(job)
        _wait_for(pause.exists)
        second = lab.run(pair.second, folder, hidden=pair.hidden)
        pause.unlink(missing_ok=True)
        first = lab.server.wait(pid, job, lab.limit)
        return _judge(pair, (first, second), _content(folder), expected)


def _judge(
    pair: Pair, ends: tuple[Outcome, Outcome], content: dict[str, str], expected: list[dict[str, str]]
) -> Ending:
    label = " and ".join(end.label() for end in ends)
    for end in ends:
        if fault := end.fault(pair.codes):
            return Ending(label, fault)
    if all(end.status for end in ends):
        return Ending(label, "both were refused")
    winners = [one for one, end in zip(expected, ends, strict=True) if end.status == 0]
    differences = [difference(content, one) for one in winners]
    return Ending(label, None if None in differences else f"neither content: {differences[0]}")


def _alone(lab: Lab, name: str, pair: Pair, words: tuple[str, ...]) -> dict[str, str]:
    """Content that a command writes alone, kept in a file."""
    digest = hashlib.sha256(json.dumps(words).encode()).hexdigest()[:12]
    file = lab.folder / f"alone-{name.replace(' ', '-')}-{digest}.json"
    if not file.is_file():
        with lab.trial_folder() as folder:
            _prepare(lab, folder)
            outcome = lab.run(words, folder, hidden=pair.hidden)
            assert outcome.status == 0, outcome.err
            file.write_text(json.dumps(_content(folder)))
    return dict(json.loads(file.read_text()))


def _content(folder: Path) -> dict[str, str]:
    """Digests of everything that begins with `output`, also temporary files."""
    written = [path for path in folder.iterdir() if path.name.lstrip(".").startswith("output")]
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in written if path.is_file()}
    for path in written:
        if path.is_dir():
            found |= {f"{path.name}/{name}": digest for name, digest in digests(path).items()}
    return found


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.002)
