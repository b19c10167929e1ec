"""Conversion of a folder of results with a file for each claim and training into files by study.

    python tools/convert_results.py FROM TO

Reads `FROM/CLAIM.json` and `FROM/trainings/STUDY/VARIANT-seed-N.json`, as versions up to 0.2 wrote them, and adds
their lines to `TO/STUDY.jsonl` and `TO/trainings/STUDY.jsonl`; a line of the same name is replaced, FROM remains.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mtkit.evidence.results import change_line, read_lines_by_name


def tried_rates(trainings: Path, variants: list[str], seeds: set[str]) -> dict[str, list[float]]:
    """Learning rates of each variant, that with all seeds first."""
    found: dict[str, dict[float, set[str]]] = {variant: {} for variant in variants}
    for name in read_lines_by_name(trainings):
        label, _, seed = name.rpartition("-seed-")
        variant, _, rate = label.rpartition("@")
        if variant in found:
            found[variant].setdefault(float(rate), set()).add(seed)
    chosen = {variant: [rate for rate in rates if rates[rate] >= seeds] for variant, rates in found.items()}
    return {variant: [*best, *sorted(found[variant].keys() - set(best))] for variant, best in chosen.items() if best}


def convert(source: Path, output: Path) -> None:
    """Convert one folder."""
    for path in sorted(source.glob("trainings/*/*-seed-*.json")):
        record = json.loads(path.read_text("utf-8"))
        lines = output / "trainings" / f"{path.parent.name}.jsonl"
        change_line(lines, path.stem, lambda _, record=record: record)  # type: ignore[misc]
    for path in sorted(source.glob("*.json")):
        result = json.loads(path.read_text("utf-8"))
        study = f"{Path(result['study']).stem}.jsonl"
        seeds = {seed for check in result["checks"] for seed in check["of"]}
        rates = tried_rates(output / "trainings" / study, list(result["parameters"]), seeds)
        content = {key: value for key, value in result.items() if key not in ("name", "checks")}
        content |= {"rates": rates, "checks": result["checks"]}
        change_line(output / study, path.stem, lambda _, content=content: content)  # type: ignore[misc]


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
