"""An open run: a run folder locked by this process, with its reconciled recipe and event log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtkit.errors import RecipeError
from mtkit.io.files import hash_file, write_json
from mtkit.io.lock import RunLock
from mtkit.pipeline.reconcile import reconcile_recipe
from mtkit.pipeline.run_folder import Json, RunFolder, read_json
from mtkit.recipe.recipe import Recipe, save_recipe
from mtkit.training.monitoring.log import Display, Log, NullDisplay
from mtkit.training.monitoring.meter import Stopwatch


@dataclass(frozen=True)
class Run:
    """A run folder that is locked by this process, its recipe and its log.

    Attributes:
        recipe: with `training.precision: auto` resolved.
        folder: paths in the run folder.
        log: event log, which also notifies the display.
        hashes: cache of `hash`.
        since_start: time since the folder was opened.
    """

    recipe: Recipe
    folder: RunFolder
    log: Log
    hashes: dict[Path, str] = field(default_factory=dict)
    since_start: Stopwatch = field(default_factory=Stopwatch)

    def hash(self, path: Path) -> str:
        """Return the SHA-256 of a text file, computed once per run."""
        if path not in self.hashes:
            self.hashes[path] = hash_file(path)
        return self.hashes[path]

    def notify(self, stage: str, result: str) -> None:
        """Log and display the result of a stage."""
        self.log.event(stage, result=result)

    def mark_unchanged(self, stage: str) -> None:
        """Display that a stage is skipped; the log contains only what was done."""
        self.log.display.event(stage, None, {"result": "unchanged, kept"})

    def forbid_overwrite(self, what: str) -> None:
        """Raise if there is training that depends on `what`, which has changed.

        Raises:
            RecipeError: there is one.
        """
        if self.folder.has_training():
            raise RecipeError(
                f"{self.folder.path}: {what} changed since this training was started; start over with --fresh, or "
                "choose another --run-dir"
            )

    def update_json(self, path: Path, changes: Mapping[str, Any]) -> Json:
        """Replace some keys of a JSON file in the run folder; return its new content."""
        content = {**read_json(path), **changes}
        write_json(path, content)
        return content


@contextmanager
def open_run(
    recipe: Recipe, run_dir: Path | None, *, fresh: bool = False, display: Display | None = None
) -> Iterator[Run]:
    """Lock a run folder, reconcile the recipe with a training started there, save the recipe and open the log.

    Harmless changes of the recipe are logged.

    Args:
        recipe: the checked recipe.
        run_dir: the folder; None: `runs/NAME` in the current directory.
        fresh: delete a training that was started or finished in the folder.
        display: receives every event.

    Raises:
        BusyError: another process has the lock.
        RecipeError: a training was started with another recipe; names the keys.
        FormatError: a training was started by another version of mtkit in a format that this one does not read.
        ReadWriteError: the folder cannot be written.
    """
    folder = RunFolder(run_folder_path(recipe, run_dir))
    with RunLock(folder.path):
        if fresh:
            folder.delete_training()
        recipe, harmless = reconcile_recipe(recipe, folder)
        folder.write_version()
        save_recipe(recipe, folder.recipe)
        with Log(folder.log, display or NullDisplay()) as log:
            run = Run(recipe, folder, log)
            if harmless:
                run.notify("recipe", f"harmless changes: {'; '.join(harmless)}")
            yield run


def run_folder_path(recipe: Recipe, run_dir: Path | None) -> Path:
    """Return the absolute path of a run folder; by default `runs/NAME` in the current directory."""
    return (run_dir if run_dir is not None else Path("runs") / recipe.name).absolute()
