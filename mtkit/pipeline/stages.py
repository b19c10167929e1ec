"""The stages of the route; each first makes what it needs and is missing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.recipe import Recipe


@dataclass(frozen=True)
class Report:
    """What a stage leaves: `lines` to be printed at its end, `content` as in report.json, `run_dir` with everything."""

    run_dir: Path
    lines: list[str]
    content: dict[str, Any]


def run(recipe: Recipe, *, run_dir: Path | None = None, fresh: bool = False, display: Any = None) -> Report:
    """The whole route: tokenizer, corpus, training, translation of the test sets, scores."""
    raise NotImplementedError


def train_tokenizer(recipe: Recipe, *, run_dir: Path | None = None, display: Any = None) -> Report:
    """Learn the tokenizer, if it is not there already."""
    raise NotImplementedError


def preprocess(recipe: Recipe, *, run_dir: Path | None = None, display: Any = None) -> Report:
    """Clean and binarise the corpus, if it is not there already."""
    raise NotImplementedError


def train(recipe: Recipe, *, run_dir: Path | None = None, fresh: bool = False, display: Any = None) -> Report:
    """Train, or go on where the run was interrupted."""
    raise NotImplementedError


def evaluate_run(run_dir: Path, *, display: Any = None) -> Report:
    """Translate and score the test sets of a finished run."""
    raise NotImplementedError
