"""Results of tested claims, `results/STUDY.jsonl`, a claim on each line: numbers of each seed, machine, versions.

A line has what was measured. Effects, intervals and verdicts are computed when it is read, with the margins of the
claim, so that they always follow from the numbers.
"""

from __future__ import annotations

import importlib.resources
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from mtkit.errors import BusyError, DataError
from mtkit.evidence.claim import CheckConfig, ClaimConfig
from mtkit.evidence.effect import Effect, Prior, Verdict, judge, lacks, overall, paired_effect, unpaired_effect
from mtkit.io.files import read_file, write_bytes
from mtkit.io.json_text import encode_json, parse_json
from mtkit.io.lock import OutputLock

Lines = Mapping[str, Mapping[str, Any]]

MIN_BLEU = 5.0  # of models whose variance counts for others; below, models have learned next to nothing
# keys of a check that numbers depend on
_MEASURED = ("of", "against", "metric", "ratio", "longer_than", "words", "goal")


def read_lines_by_name(path: Path) -> Lines:
    """JSON objects of a file by their `name`, without it; nothing if there is no file.

    Raises:
        DataError: the file is damaged.
    """
    if not path.is_file():
        return {}
    about = path.stat()
    return _parse(path, (about.st_ino, about.st_mtime_ns, about.st_size))


@lru_cache(maxsize=64)
def _parse(path: Path, _version: tuple[int, ...]) -> Lines:
    found: dict[str, Mapping[str, Any]] = {}
    for number, line in enumerate(read_file(path).rstrip(b"\n").split(b"\n"), 1):
        try:
            content: dict[str, Any] = parse_json(line)
            found[content.pop("name")] = content
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise DataError(f"{path}:{number}: not a result of mtkit reproduce ({error}); remove the line") from error
    return found


def change_line(path: Path, name: str, change: Callable[[Mapping[str, Any] | None], Mapping[str, Any]]) -> None:
    """Replace a line of a file, or add it; lines are in the order of their names, one name a line.

    The file is read again under a lock, so that processes that add lines at the same time lose none.

    Args:
        change: returns the new line for the present one.

    Raises:
        DataError: the file is damaged.
        ReadWriteError: it cannot be written.
    """
    while True:
        try:
            with OutputLock(path, make_parents=True):
                lines = dict(read_lines_by_name(path))
                lines[name] = change(lines.get(name))
                rows = ({"name": key, **lines[key]} for key in sorted(lines))
                text = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
                write_bytes(path, encode_json(text))
                return
        except BusyError:  # held for milliseconds
            time.sleep(0.02)


@dataclass(frozen=True)
class CheckResult:
    """Numbers of one comparison.

    Attributes:
        check: the comparison.
        of, against: value of both systems for each seed. With `longer_than` the difference of two BLEU scores; of some
            early tests only the difference of both systems is known, which is that of the first, and the other has 0.
        sentence_error: standard error of their mean difference due to the test lines.
        paired: the models share their training, so that equal seeds are pairs.
    """

    check: CheckConfig
    of: Mapping[int, float]
    against: Mapping[int, float]
    sentence_error: float
    paired: bool

    @cached_property
    def effect(self) -> Effect:
        """Difference and its interval."""
        check, of, against = self.check, self.of, self.against
        if check.ratio:
            of, against = ({seed: 100 * math.log(side[seed]) for seed in side} for side in (of, against))
        if self.paired:
            return paired_effect([of[seed] - against[seed] for seed in of if seed in against], self.sentence_error)
        has_prior = check.metric == "bleu" and not check.ratio and check.longer_than is None and check.words is None
        prior = seed_prior() if has_prior else None
        return unpaired_effect(list(of.values()), list(against.values()), self.sentence_error, prior)

    @property
    def verdict(self) -> Verdict:
        """Verdict of the comparison."""
        return judge(self.check, self.effect)

    @property
    def verdict_text(self) -> str:
        """The verdict, with what it lacks if it is undecided."""
        verdict = self.verdict
        return f"{verdict}: lacks {lacks(self.check, self.effect)}" if verdict == Verdict.undecided else verdict.value


def pooled(stored: CheckResult, new: CheckResult) -> CheckResult:
    """Both tests of one comparison together; a training that is in both, with equal seed and value, counts once.

    The test lines are the same, so that their error does not become less.
    """
    sides = [(stored.of, new.of), (stored.against, new.against)]
    known = [{seed for seed in b if math.isclose(a.get(seed, math.nan), b[seed], rel_tol=1e-4)} for a, b in sides]
    if new.paired:
        known = [known[0] & known[1]] * 2
    shift = 1 + max(seed for side in sides for each in side for seed in each)  # equal seeds, other trainings
    of, against = (
        {**a, **{seed + shift: value for seed, value in b.items() if seed not in repeated}}
        for (a, b), repeated in zip(sides, known, strict=True)
    )
    return CheckResult(new.check, of, against, max(stored.sentence_error, new.sentence_error), new.paired)


def difference(stored: CheckResult, new: CheckResult) -> Effect:
    """Effect of a new test minus the stored one; the test lines are the same and have no part in it."""
    return Effect(new.effect.mean - stored.effect.mean, [*new.effect.spreads, *stored.effect.spreads], 0.0)


@dataclass(frozen=True)
class ClaimResult:
    """Result of a claim.

    Attributes:
        overrides: of the study's and the recipes' keys, except the folder of the corpus.
        date: of the test, YYYY-MM-DD.
        environment: processor, threads, versions, precision of training and of translation.
        seconds: of training; early tests: of training and translation.
        runs: number of trained models.
        parameters: of each variant.
        rates: learning rates that were tried for each variant that has its own, the chosen one first.
    """

    name: str
    study: str
    systems: Mapping[str, Any]
    overrides: Sequence[str]
    date: str
    environment: Mapping[str, Any]
    seconds: float
    runs: int
    parameters: Mapping[str, int]
    rates: Mapping[str, Sequence[float]]
    checks: list[CheckResult]

    @property
    def verdict(self) -> Verdict:
        """Verdict of the claim."""
        return overall(check.verdict for check in self.checks)

    def write(self, folder: Path) -> Path:
        """Write the line of the claim; returns the path of the file.

        Raises:
            ReadWriteError: the folder cannot be written.
        """
        checks = [
            {
                "check": _measured_keys(each.check),
                "of": each.of,
                "against": each.against,
                "sentence_error": each.sentence_error,
            }
            for each in self.checks
        ]
        content = _rounded({**vars(self), "checks": checks})
        del content["name"]
        path = _path(folder, self.study)
        change_line(path, self.name, lambda _: content)
        return path


def _path(folder: Path, study: str) -> Path:
    return folder / f"{Path(study).stem}.jsonl"


def _measured_keys(check: CheckConfig) -> dict[str, Any]:
    values = asdict(check)
    return {key: values[key] for key in _MEASURED if values[key] not in (None, False)}


def _rounded(value: Any) -> Any:
    """Floats with six significant digits: enough for every table, and small files."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {str(key): _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def results_folder() -> Path:
    """Folder of the results that come with mtkit."""
    package = Path(str(importlib.resources.files("mtkit")))
    installed = package / "recipes" / "results"
    return installed if installed.is_dir() else package.parent / "recipes" / "results"


def read_result(folder: Path, name: str, config: ClaimConfig) -> ClaimResult | None:
    """Result of a claim; None if there is none, or if it tested another study, other systems or comparisons.

    Raises:
        DataError: the file is damaged.
    """
    path = _path(folder, config.study)
    line = read_lines_by_name(path).get(name)
    if line is None:
        return None
    try:
        content = dict(line)
        systems = {system: asdict(each) for system, each in config.systems.items()}
        tested = [entry["check"] for entry in content["checks"]]
        current = [_measured_keys(check) for check in config.checks]
        if (content["study"], content["systems"], tested) != (config.study, systems, current):
            return None
        pairs = zip(config.checks, content.pop("checks"), strict=True)
        checks = []
        for check, entry in pairs:
            of, against = ({int(seed): float(entry[side][seed]) for seed in entry[side]} for side in ("of", "against"))
            checks.append(CheckResult(check, of, against, float(entry["sentence_error"]), config.is_paired(check)))
        return ClaimResult(name=name, **content, checks=checks)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: {name}: not a result of mtkit reproduce ({error}); remove the line and test the claim again"
        ) from error


@cache
def seed_prior() -> Prior | None:
    """Variance of BLEU over the seeds, from all models of the results that come with mtkit; see method.md."""
    samples: set[tuple[float, ...]] = set()  # claims share models
    lines = [line for path in results_folder().glob("*.jsonl") for line in read_lines_by_name(path).values()]
    for systems, entry in ((each["systems"], entry) for each in lines for entry in each["checks"]):
        check = entry["check"]
        if check["metric"] != "bleu" or check.keys() & {"ratio", "longer_than", "words"}:
            continue
        sides = (side for side in ("of", "against") if check[side] not in systems)
        samples |= {tuple(entry[side].values()) for side in sides}
    return Prior.fit(sorted(sample for sample in samples if fmean(sample) >= MIN_BLEU))
