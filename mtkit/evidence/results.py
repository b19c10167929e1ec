"""Result of a tested claim, as JSON in `recipes/results/NAME.json`: numbers of each seed, machine, versions."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mtkit.errors import DataError
from mtkit.evidence.claim import CheckConfig, ClaimConfig, CompressionConfig, SystemConfig
from mtkit.evidence.paired_effect import Effect
from mtkit.evidence.verdict import Verdict, judge, missing_data, overall
from mtkit.io.files import translate_read_errors, write_json
from mtkit.io.json_text import parse_json


@dataclass(frozen=True)
class CheckResult:
    """Numbers of one comparison.

    Attributes:
        check: the comparison, as in the claim's file when it was tested.
        of, against: value of both systems for each seed, on all test lines.
        differences: of each seed, in the unit of the check.
    """

    check: CheckConfig
    of: Mapping[str, float]
    against: Mapping[str, float]
    differences: Mapping[str, float]
    effect: Effect

    @property
    def verdict(self) -> Verdict:
        """Verdict of the comparison."""
        return judge(self.check, self.effect)

    def as_dict(self) -> dict[str, Any]:
        """The entry of the file."""
        return {
            **asdict(self),
            "verdict": self.verdict.value,
            "needs_times_the_data": missing_data(self.check, self.effect),
        }


@dataclass(frozen=True)
class ClaimResult:
    """Result of a claim.

    Attributes:
        study: name of the study, as in the claim's file.
        systems: of the claim's file when it was tested.
        overrides: of the study's and the recipes' keys, except the folder of the corpus.
        date: of the test, YYYY-MM-DD.
        environment: processor, cores, threads, versions, precision of training and of translation.
        seconds: of training and translation, summed over the runs.
        runs: number of trained models.
        parameters: of each variant.
    """

    name: str
    study: str
    systems: Mapping[str, SystemConfig]
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

    def is_of(self, config: ClaimConfig) -> bool:
        """Return whether study, systems and checks are those of the claim's file."""
        checks = [result.check for result in self.checks]
        return (self.study, self.systems, checks) == (config.study, config.systems, config.checks)

    def write(self, folder: Path) -> Path:
        """Write the file; returns its path.

        Raises:
            ReadWriteError: the folder cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        content = {**asdict(self), "checks": [check.as_dict() for check in self.checks], "verdict": self.verdict.value}
        write_json(folder / f"{self.name}.json", _rounded(content))
        return folder / f"{self.name}.json"


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


def read_result(folder: Path, name: str) -> ClaimResult | None:
    """Result of a claim; None if there is no file.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    with translate_read_errors(path):
        text = path.read_text(encoding="utf-8")
    try:
        content = parse_json(text)
        del content["verdict"]
        checks = [_check(entry) for entry in content.pop("checks")]
        systems = {name: _system(entry) for name, entry in content.pop("systems").items()}
        return ClaimResult(**content, checks=checks, systems=systems)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not a result of mtkit reproduce ({error}); remove it and test the claim again"
        ) from error


def _system(entry: dict[str, Any]) -> SystemConfig:
    compress = entry.pop("compress")
    return SystemConfig(**entry, compress=None if compress is None else CompressionConfig(**compress))


def _check(entry: dict[str, Any]) -> CheckResult:
    values = {key: entry[key] for key in ("of", "against", "differences")}
    return CheckResult(CheckConfig(**entry["check"]), **values, effect=Effect(**entry["effect"]))
