"""An open run: a run folder locked by this process, with its reconciled recipe and event log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtkit.corpus.config import PairDocument
from mtkit.errors import DamagedError, MissingInputError, RecipeError
from mtkit.io.files import hash_file, require_regular_file, require_utf8_name, translate_write_errors
from mtkit.io.lock import RunLock, clean_up_folder
from mtkit.io.records import Json, write_record
from mtkit.pipeline.languages import likely_mistakes
from mtkit.pipeline.reconcile import reconcile_recipe
from mtkit.pipeline.run_folder import Fingerprints, RunFolder, RunRecord, read_json, save_recipe
from mtkit.recipe.sections import Recipe, describe_choices
from mtkit.training.monitoring.log import Display, Log, default_display, last_event
from mtkit.training.monitoring.meter import Stopwatch


@dataclass(frozen=True)
class Run:
    """A run folder that is locked by this process, its recipe and its log.

    Attributes:
        recipe: with `training.precision: auto` resolved.
        log: event log, which also notifies the display.
        hashes: cache of `hash`.
        since_start: time since the command started.
    """

    recipe: Recipe
    folder: RunFolder
    log: Log
    hashes: dict[Path, str] = field(default_factory=dict)
    since_start: Stopwatch = field(default_factory=Stopwatch)
    reported: set[str] = field(default_factory=set)

    def hash(self, path: Path) -> str:
        """Return the SHA-256 of a text file, computed once per run."""
        if path not in self.hashes:
            self.hashes[path] = hash_file(path)
        return self.hashes[path]

    def notify(self, stage: str, result: str) -> None:
        """Log and display the result of a stage."""
        self.log.event(stage, result=result)

    def begin(self, stage: str, work: str) -> None:
        """Display that a stage begins, which may take long; the log contains only what was done."""
        self.log.display.event(stage, None, {"result": f"{work} ..."})

    def report_mistakes(self) -> None:
        """Log and display likely mistakes in the text, once.

        Raises:
            DataError: as `likely_mistakes`.
        """
        sentences = [] if "text" in self.reported else likely_mistakes(self.recipe.corpus)
        self.reported.add("text")
        for sentence in sentences:
            self.notify("text", sentence)

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

    def read_record(self, path: Path) -> Json:
        """Return the content of a record that can be made again; empty if it is missing or damaged."""
        try:
            return read_json(path)
        except DamagedError as error:
            self.notify("damaged", f"{error.what}; what it describes is made again")
            return {}

    def update_record(self, path: Path, changes: Mapping[str, Any]) -> None:
        """Replace some keys of a record in the run folder."""
        write_record(path, {**read_json(path), **changes})


@contextmanager
def open_run(
    recipe: Recipe,
    run_dir: Path | str | None,
    *,
    fresh: bool = False,
    display: Display | None = None,
    started: float | None = None,
) -> Iterator[Run]:
    """Lock a run folder, reconcile the recipe with a training started there, save the recipe and open the log.

    Harmless changes of the recipe are logged. Damaged records of the folder are made again, and what killed processes
    were writing in it is removed.

    Args:
        run_dir: the folder; None: `runs/NAME` in the current directory.
        fresh: delete a training that was started or finished in the folder.
        display: receives every event.
        started: time of the clock at the start of the command; None: now.

    Raises:
        BusyError: another process has the lock.
        RecipeError: a training was started with another recipe; names the keys.
        MissingInputError: a record or the log in the run folder is a link, a pipe, a device or a folder, or one of its
            folders is a file.
        FormatError: a training was started by another version of mtkit in a format that this one does not read.
        ReadWriteError: the folder cannot be written.
        UsageError: its path is not UTF-8.
    """
    folder = RunFolder(run_folder_path(recipe, run_dir))
    require_utf8_name(folder.path.resolve())
    records = (folder.recipe, folder.version, folder.report, folder.fingerprints)
    for each in (*records, folder.log):  # a link, a pipe or a device would be written to instead of replaced
        if each.is_symlink():
            raise MissingInputError(
                f"{each}: a link, where a file of the run is expected; put a copy of the file there"
            )
        if each.exists():
            require_regular_file(each)
    for each in (*folder.folders_with_temporaries(), folder.tokenizer, folder.model):
        if each.exists() and not each.is_dir():
            raise MissingInputError(f"{each}: a file, where a folder of the run is expected; move it away")
    with RunLock(folder.path):
        for each in folder.folders_with_temporaries():
            clean_up_folder(each)
        if fresh:
            folder.delete_training()
        damage = folder.version_damage() if folder.has_training() else None
        recipe, harmless = reconcile_recipe(recipe, folder)
        folder.write_version()
        save_recipe(recipe, folder.recipe)
        with Log(folder.log, display or default_display()) as log:
            since_start = Stopwatch() if started is None else Stopwatch(time.perf_counter() - started)
            run = Run(recipe, folder, log, since_start=since_start)
            if damage is not None:
                run.notify("damaged", f"{damage}; it is made again")
            _restore_report(run)
            for choice in [] if folder.has_training() else describe_choices(recipe):
                run.notify("chosen", choice)
            if harmless:
                run.notify("recipe", f"harmless changes: {'; '.join(harmless)}")
            yield run


def _restore_report(run: Run) -> None:
    """Move damaged records of results away, which the stages make again, and take the training's from the log."""
    folder = run.folder
    for path, schema in ((folder.report, RunRecord), (folder.fingerprints, Fingerprints)):
        try:
            read_json(path, schema)
        except DamagedError as error:
            kept = path.with_name(f"damaged-{path.name}")
            with translate_write_errors(kept):
                path.replace(kept)
            run.notify("damaged", f"{error.what}; it is made again, and the damaged file kept as {kept.name}")
    if not folder.model.is_dir() or "train" in folder.read_report():
        return
    end = last_event(folder.log, "end", finished=True)
    if end is not None:
        summary = training_summary(end, run.recipe.training.precision)
        run.update_record(folder.report, {"train": summary, "texts": text_sources(run)})
        run.notify("report", f"training statistics in {folder.report.name} made again from {folder.log.name}")


def training_summary(end: Mapping[str, Any], precision: str) -> Json:
    """Return `train` of report.json.

    Args:
        end: the event at the end of the training.
    """
    keys = ("seconds", "tokens_per_second", "reason", "best_update", "numerics")
    return {"updates": end["update"], **{key: end[key] for key in keys}, "precision": precision}


def text_sources(run: Run) -> list[Json]:
    """Origins of the texts of a run: place, names of files, address, licence, hashes of both sides."""
    sources = []
    for place, files in run.recipe.corpus.texts.items():
        hashes = [run.hash(path) for path in dict.fromkeys((files.src, files.tgt)) if path.is_file()]
        facts = {"name": ", ".join(path.name for path in files.given), "address": None, "licence": None}
        if isinstance(files, PairDocument) and (corpus := files.lines.named) is not None:
            facts = {"name": corpus.name, **{key: corpus.record()[key] for key in ("address", "licence")}}
        sources.append({"text": place, **facts, "sha256": hashes})
    return sources


def run_folder_path(recipe: Recipe, run_dir: Path | str | None) -> Path:
    """Return the absolute path of a run folder; by default `runs/NAME` in the current directory."""
    return (Path(run_dir) if run_dir is not None else Path("runs") / recipe.name).absolute()
