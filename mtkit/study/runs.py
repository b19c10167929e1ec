"""The runs of a study: one ordinary run folder for each variant and seed, and what has become of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mtkit.errors import RecipeError
from mtkit.io.files import write_json
from mtkit.pipeline.records import read_json
from mtkit.pipeline.run_folder import RunFolder, agreed
from mtkit.recipe.recipe import Recipe, load_saved
from mtkit.study.read import Study


@dataclass(frozen=True)
class Failure:
    """What failed.json says."""

    reason: str


@dataclass(frozen=True)
class StudyRun:
    """One variant trained from one seed.

    Attributes:
        recipe: with the run's own name and seed, and no other test set than the study's.
        folder: runs/STUDY/VARIANT/seed-N.
        test: the test set of the study.
        source: the run whose model this one begins from.
    """

    variant: str
    seed: int
    recipe: Recipe
    folder: RunFolder
    test: str
    source: StudyRun | None = None

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"{self.variant}, seed {self.seed}"

    def is_finished(self) -> bool:
        """Whether this very recipe was trained and scored here."""
        report = self.folder.read_report()
        scores = report.get("test", {}).get(self.test, {})
        if "train" not in report or "bleu" not in scores or not self.folder.model.is_dir():
            return False
        try:
            return agreed(self.recipe, self.folder)[0] == load_saved(self.folder.recipe)
        except RecipeError:  # of another recipe or another version; running it says more
            return False

    @property
    def _failure(self) -> Path:
        return self.folder.path / "failed.json"

    def note_failure(self, reason: str) -> None:
        """Remember that training failed, and why."""
        write_json(self._failure, {"reason": reason})

    def forget_failure(self) -> None:
        """It is tried again."""
        self._failure.unlink(missing_ok=True)

    def failure(self) -> str | None:
        """Why its last training failed; None if it did not."""
        found = read_json(self._failure, Failure)
        return str(found["reason"]) if found else None


def study_folder(study: Study, run_dir: Path | None) -> Path:
    """Where a study goes: `runs/NAME` in the current directory unless said otherwise."""
    return (run_dir if run_dir is not None else Path("runs") / study.config.name).resolve()


def runs_of(study: Study, folder: Path) -> list[StudyRun]:
    """All runs, seed by seed, so that every variant soon has one; those that begin from others come after them."""
    return [run for seed in study.config.seeds for run in _of_seed(study, folder, seed)]


def _of_seed(study: Study, folder: Path, seed: int) -> Iterator[StudyRun]:
    begin_from = study.config.begin_from
    done: dict[str, StudyRun] = {}
    for variant in sorted(study.recipes, key=lambda name: name in begin_from):  # stable: else in the order of the file
        recipe = study.recipes[variant]
        own = RunFolder(folder / variant / f"seed-{seed}")
        source = done[begin_from[variant]] if variant in begin_from else None
        training = replace(recipe.training, seed=seed)
        if source is not None:
            training = replace(training, init_from=source.folder.path)
        corpus = replace(recipe.corpus, test={study.test: recipe.corpus.test[study.test]})
        named = replace(recipe, name=f"{study.config.name}-{variant}-{seed}", corpus=corpus, training=training)
        done[variant] = StudyRun(variant, seed, named, own, study.test, source)
        yield done[variant]
