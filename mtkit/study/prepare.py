"""Tokenizer and binary corpus of the runs of a study, made once for all runs that have the same."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from mtkit.io.files import build_folder
from mtkit.pipeline.prepare_corpus import check_inputs, make_corpus, make_tokenizer
from mtkit.pipeline.run_folder import RunFolder, open_run
from mtkit.recipe.recipe import Recipe, plain
from mtkit.study.runs import StudyRun
from mtkit.training.monitoring.log import Display


def prepare(runs: Sequence[StudyRun], *, fresh: bool, display: Display) -> None:
    """Leave the recipe, and tokenizer and corpus, in the folder of every run that is not finished.

    They are hard links to those of the first run that has them: each folder is whole, and the disk holds them once.
    (What lies there is never written to, only replaced.) Each run looks by itself whether they are still right.

    Args:
        runs: all of the study.
        fresh: forget what was trained in all of them.
        display: is shown what was made.

    Raises:
        MissingInputError, DataError: of a corpus, before anything is trained.
        RecipeError: a training was begun in one of the folders with another recipe.
        BusyError: another process holds one of them.
        ReadWriteError: a folder cannot be written.
    """
    makers: dict[str, RunFolder] = {}
    for run in runs:
        key = _key(run.recipe)
        if fresh or not run.is_finished():
            _prepare(run, makers.get(key), fresh=fresh, display=display)
        if run.source is None and run.folder.lexicon.is_file():  # the last thing that is made
            makers.setdefault(key, run.folder)


def _key(recipe: Recipe) -> str:
    """Equal for recipes with the same tokenizer and binary corpus."""
    corpus, tokenizer = plain(recipe.corpus), plain(recipe.tokenizer)
    for key in ("root", "test"):
        del corpus[key]
    del tokenizer["sampling"]
    return json.dumps([corpus, tokenizer])


def _prepare(run: StudyRun, maker: RunFolder | None, *, fresh: bool, display: Display) -> None:
    if maker is None:
        check_inputs(run.recipe)
    with open_run(run.recipe, run.folder.path, fresh=fresh, display=display) as held:
        if maker is not None and not held.folder.tokenizer.is_dir():
            for made, own in ((maker.tokenizer, held.folder.tokenizer), (_corpus(maker), _corpus(held.folder))):
                _link(made, own)
        elif maker is None and run.source is None:
            make_corpus(held, make_tokenizer(held))


def _corpus(folder: RunFolder) -> Path:
    return folder.valid.parent


def _link(made: Path, own: Path) -> None:
    if made.is_dir():
        with build_folder(own) as temporary:
            shutil.copytree(made, temporary, copy_function=_link_file, dirs_exist_ok=True)


def _link_file(made: str, own: str) -> None:
    try:
        os.link(made, own)
    except OSError:  # this file system has no hard links
        shutil.copy2(made, own)
