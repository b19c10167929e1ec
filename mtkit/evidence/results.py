"""Result of a tested claim, as JSON in `recipes/results/NAME.json`: numbers of each seed, machine, versions.

A file has what was measured. Effects, intervals and verdicts are computed when it is read, with the margins of the
claim's file, so that they always follow from the numbers.
"""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from mtkit.errors import DataError
from mtkit.evidence.claim import CheckConfig, ClaimConfig
from mtkit.evidence.effect import Effect, Prior, Verdict, judge, lacks, overall, paired_effect, unpaired_effect
from mtkit.io.files import read_file, write_json
from mtkit.io.json_text import parse_json

MIN_BLEU = 5.0  # of models whose variance counts for others; below, models have learned next to nothing
# keys of a check that numbers depend on
_MEASURED = ("of", "against", "metric", "ratio", "longer_than", "words", "goal")


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
        check = self.check
        of, against = ({seed: self._scaled(value) for seed, value in each.items()} for each in (self.of, self.against))
        if self.paired:
            return paired_effect([of[seed] - against[seed] for seed in of if seed in against], self.sentence_error)
        has_prior = check.metric == "bleu" and not check.ratio and check.longer_than is None and check.words is None
        prior = seed_prior() if has_prior else None
        return unpaired_effect(list(of.values()), list(against.values()), self.sentence_error, prior)

    def _scaled(self, value: float) -> float:
        return 100 * math.log(value) if self.check.ratio else value

    @property
    def verdict(self) -> Verdict:
        """Verdict of the comparison."""
        return judge(self.check, self.effect)

    @property
    def verdict_text(self) -> str:
        """The verdict, with what it lacks if it is undecided."""
        verdict = self.verdict
        return f"{verdict}: lacks {lacks(self.check, self.effect)}" if verdict == Verdict.undecided else verdict.value


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
    checks: list[CheckResult]

    @property
    def verdict(self) -> Verdict:
        """Verdict of the claim."""
        return overall(check.verdict for check in self.checks)

    def write(self, folder: Path) -> Path:
        """Write the file; returns its path.

        Raises:
            ReadWriteError: the folder cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        checks = [
            {
                "check": _measured_keys(each.check),
                "of": each.of,
                "against": each.against,
                "sentence_error": each.sentence_error,
            }
            for each in self.checks
        ]
        content = {**vars(self), "checks": checks}
        write_json(folder / f"{self.name}.json", _rounded(content))
        return folder / f"{self.name}.json"


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
    """Result of a claim; None if there is no file, or if it tested another study, other systems or comparisons.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    try:
        content = _read(path)
        systems = {system: asdict(each) for system, each in config.systems.items()}
        tested = [entry["check"] for entry in content["checks"]]
        current = [_measured_keys(check) for check in config.checks]
        if (content["study"], content["systems"], tested) != (config.study, systems, current):
            return None
        pairs = zip(config.checks, content.pop("checks"), strict=True)
        checks = [_check(check, entry, paired=config.is_paired(check)) for check, entry in pairs]
        return ClaimResult(**content, checks=checks)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: not a result of mtkit reproduce ({error}); remove it and test the claim again"
        ) from error


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = parse_json(read_file(path))
    return content


def _check(check: CheckConfig, entry: Mapping[str, Any], *, paired: bool) -> CheckResult:
    of, against = ({int(seed): float(value) for seed, value in entry[side].items()} for side in ("of", "against"))
    return CheckResult(check, of, against, float(entry["sentence_error"]), paired)


@cache
def seed_prior() -> Prior | None:
    """Variance of BLEU over the seeds, from all models of the results that come with mtkit; see method.md."""
    samples: set[tuple[float, ...]] = set()  # claims share models
    for path in sorted(results_folder().glob("*.json")):
        content = _read(path)
        for entry in content["checks"]:
            check = entry["check"]
            if check["metric"] != "bleu" or check.keys() & {"ratio", "longer_than", "words"}:
                continue
            sides = (side for side in ("of", "against") if check[side] not in content["systems"])
            samples |= {tuple(entry[side].values()) for side in sides}
    return Prior.fit(sorted(sample for sample in samples if fmean(sample) >= MIN_BLEU))
