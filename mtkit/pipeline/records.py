"""What a run folder knows of earlier calls (report.json, stamps.json), every value of the kind that it must be."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from mtkit.errors import DamagedError
from mtkit.io.files import load_json

Json = dict[str, Any]
REMEDY = "delete it, it will be made again"


@dataclass(frozen=True)
class OfTraining:
    """What report.json says of the training and others read."""

    updates: int
    precision: str
    tokens_per_second: FiniteFloat
    best_update: int | None


@dataclass(frozen=True)
class OfTest:
    """What report.json says of a test set and others read; of the scores it has those that were asked for."""

    bleu: FiniteFloat = 0.0
    chrf: FiniteFloat = 0.0
    ter: FiniteFloat = 0.0
    bleu_signature: str = ""
    chrf_signature: str = ""
    ter_signature: str = ""
    seconds: FiniteFloat = 0.0


@dataclass(frozen=True)
class Report:
    """report.json; either may be missing."""

    train: OfTraining = OfTraining(updates=0, precision="", tokens_per_second=0.0, best_update=None)
    test: dict[str, OfTest] = field(default_factory=dict)


@dataclass(frozen=True)
class Stamps:
    """stamps.json: what training and translations were made from."""

    train: str = ""
    test: dict[str, list[str]] = field(default_factory=dict)


def read_json(path: Path, kind: type[object] | None = None) -> Json:
    """A JSON object, or an empty one if the file is not there.

    Args:
        path: the file.
        kind: a dataclass whose fields say of what kind values must be; there may be others.

    Raises:
        DamagedError: it is damaged.
    """
    if not path.is_file():
        return {}
    content = load_json(path, remedy=REMEDY)
    if kind is not None:
        _check(path, content, kind)
    return content


def _check(path: Path, content: Json, kind: type[object]) -> None:
    try:
        TypeAdapter(kind).validate_json(json.dumps(content), strict=True)  # where a mapping may be a dataclass
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise DamagedError(f"{path}: damaged: {key} is missing or not what it must be", REMEDY) from error
