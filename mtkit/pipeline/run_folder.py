"""The run folder: what lies where, who holds it, and what is known of earlier calls."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mtkit.build.training import with_precision
from mtkit.errors import RecipeError
from mtkit.io.files import hash_file, write_json, writing
from mtkit.io.lock import RunLock
from mtkit.pipeline.reconcile import changes
from mtkit.pipeline.records import Json, Report, Stamps, read_json
from mtkit.recipe.recipe import Recipe, load_saved, save_recipe
from mtkit.training.checkpoints.checkpoint import list_checkpoints
from mtkit.training.monitoring.log import Display, Log, Silent
from mtkit.training.monitoring.meter import Stopwatch

BESIDE = ("hyps", "nonfinite", "tensorboard")  # folders that go with a training


@dataclass(frozen=True)
class RunFolder:
    """Names of what is in a run folder."""

    path: Path

    @property
    def recipe(self) -> Path:
        """The checked recipe, with every key and absolute paths."""
        return self.path / "recipe.yaml"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's folder."""
        return self.path / "tokenizer"

    @property
    def valid(self) -> Path:
        """The binarised valid set."""
        return self.path / "corpus" / "valid"

    def train(self, number: int) -> Path:
        """A binarised training corpus."""
        return self.path / "corpus" / f"train.{number}"

    @property
    def lexicon(self) -> Path:
        """The lexicon of the training corpora."""
        return self.path / "corpus" / "lexicon.safetensors"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """The model folder, there when training is finished."""
        return self.path / "model"

    @property
    def log(self) -> Path:
        """The events."""
        return self.path / "log.jsonl"

    def hyps(self, test: str) -> Path:
        """The translation of a test set."""
        return self.path / "hyps" / f"{test}.txt"

    @property
    def report(self) -> Path:
        """The scores."""
        return self.path / "report.json"

    @property
    def stamps(self) -> Path:
        """What training and translations were made from."""
        return self.path / "stamps.json"

    def read_report(self) -> Json:
        """What report.json holds, empty if it is not there; errors as `read_json`."""
        return read_json(self.report, Report)

    def read_stamps(self) -> Json:
        """What stamps.json holds, empty if it is not there; errors as `read_json`."""
        return read_json(self.stamps, Stamps)

    def has_training(self) -> bool:
        """Whether there is training that must not be lost."""
        return bool(list_checkpoints(self.checkpoints)) or self.model.is_dir()

    def forget_training(self) -> None:
        """Remove training and what came after it.

        Raises:
            ReadWriteError: the operating system refuses.
        """
        with writing(self.path):
            for folder in (self.checkpoints, self.model, *(self.path / name for name in BESIDE)):
                if folder.is_dir():
                    shutil.rmtree(folder)
            for file in (self.log, self.report, self.stamps):
                file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Run:
    """A run folder that this process holds, with its recipe."""

    recipe: Recipe
    folder: RunFolder
    log: Log
    hashes: dict[Path, str] = field(default_factory=dict)
    called: Stopwatch = field(default_factory=Stopwatch)  # runs since the folder was opened

    def hash(self, path: Path) -> str:
        """SHA-256 of a file of text, computed once a call."""
        if path not in self.hashes:
            self.hashes[path] = hash_file(path)
        return self.hashes[path]

    def say(self, stage: str, result: str) -> None:
        """Tell what became of a stage."""
        self.log.event(stage, result=result)

    def keep(self, stage: str) -> None:
        """Show that nothing is to be done; the log tells only of what happened."""
        self.log.display.event(stage, None, {"result": "unchanged, kept"})

    def refuse_to_replace(self, what: str) -> None:
        """Keep hands off what a training that was begun stands on.

        Raises:
            RecipeError: there is one.
        """
        if self.folder.has_training():
            raise RecipeError(
                f"{self.folder.path}: {what} changed since this training was begun; --fresh starts over, or choose "
                "another --run-dir"
            )

    def update_json(self, path: Path, changes: Mapping[str, Any]) -> Json:
        """Replace some keys of a JSON file of the run folder; gives the whole."""
        content = {**read_json(path), **changes}
        write_json(path, content)
        return content


@contextmanager
def open_run(
    recipe: Recipe, run_dir: Path | None, *, fresh: bool = False, display: Display | None = None
) -> Iterator[Run]:
    """Hold a run folder: lock it, compare the recipe with that of a training begun there, save it, open the log.

    What changed without harm is said.

    Raises:
        BusyError: another process holds it.
        RecipeError: a training was begun with another recipe; names the keys.
        ReadWriteError: the folder cannot be written.
    """
    folder = RunFolder(run_folder_path(recipe, run_dir))
    with RunLock(folder.path):
        if fresh:
            folder.forget_training()
        recipe, harmless = agreed(recipe, folder)
        save_recipe(recipe, folder.recipe)
        with Log(folder.log, display or Silent()) as log:
            run = Run(recipe, folder, log)
            if harmless:
                run.say("recipe", f"changed, which does no harm: {'; '.join(harmless)}")
            yield run


def run_folder_path(recipe: Recipe, run_dir: Path | None) -> Path:
    """Where a run goes: `runs/NAME` in the current directory unless said otherwise."""
    return (run_dir if run_dir is not None else Path("runs") / recipe.name).absolute()


def agreed(recipe: Recipe, folder: RunFolder) -> tuple[Recipe, list[str]]:
    """The recipe with its precision settled, if it may go on with what is in the folder, and what changed without harm.

    Raises:
        RecipeError: as `open_run`.
    """
    if not folder.has_training():
        return with_precision(recipe), []
    if not folder.recipe.is_file():
        raise RecipeError(
            f"{folder.recipe}: no such file, and nothing else says with which recipe the training here was begun; put "
            "it back, choose another --run-dir, or say --fresh to start over"
        )
    try:
        before = load_saved(folder.recipe)
    except RecipeError as error:
        raise RecipeError(
            f"{error}\nthe training in {folder.path} was begun with this recipe; --fresh starts over"
        ) from error
    if recipe.training.precision == "auto":  # a training ends in the precision that it was begun in
        recipe = replace(recipe, training=replace(recipe.training, precision=before.training.precision))
    if recipe.training.batch_tokens == "auto":
        recipe = replace(recipe, training=replace(recipe.training, batch_tokens=before.training.batch_tokens))
    found = changes(before, recipe)
    if found.fatal:
        shown = "\n".join(f"  {change}" for change in found.fatal[:8]) + ("\n  ..." if len(found.fatal) > 8 else "")
        keys = ", ".join(change.partition(":")[0] for change in found.harmless)
        harmless = f"\nthese may change: {keys}" if keys else ""
        raise RecipeError(
            f"{folder.path}: a training was begun here with another recipe; changed:\n{shown}{harmless}\n"
            "take the change back, choose another --run-dir, or say --fresh to start over"
        )
    return recipe, found.harmless
