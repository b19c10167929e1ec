"""The run folder: its files, its format version, and its records (report.json, fingerprints.json).

```
recipe.yaml         the checked recipe with every key and absolute paths
version.json        format of the run folder and version of mtkit that wrote it
tokenizer/          sentencepiece models, and fingerprint.json of the data and keys that they were trained with
corpus/             binarised corpora train.0, train.1, ..., valid, valid.1, ...; lexicon.safetensors with lexicon.json
checkpoints/        update-00001000/ ...
adapter/            trained weights of training.adapter, written before the model
model/              the model folder, written when training is finished
hyps/TEST.txt       translations of the test sets
report.json         scores and training statistics
fingerprints.json   hashes of the inputs of translations and scores
log.jsonl           one event per line
```

All of these have checksums. Opening the folder (see open_run.py) makes damaged or missing records again, except the
recipe: version.json if the recipe has a checksum, report.json from the log and by scoring again. Damaged lines of the
log are skipped. Each stage makes its own files again.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args

import yaml

from mtkit import __version__
from mtkit.config import Limits
from mtkit.corpus.store import Store
from mtkit.errors import DamagedError, FormatError, MissingInputError, RecipeError
from mtkit.io.files import translate_write_errors
from mtkit.io.records import Json, is_text_record, older_format, read_record, write_record, write_text_record
from mtkit.recipe.paths import to_plain
from mtkit.recipe.recipe import RECIPE, VERSION, load_saved
from mtkit.recipe.sections import Recipe
from mtkit.recipe.type_hints import misfit
from mtkit.recipe.yaml_reader import StrictLoader
from mtkit.training.checkpoints.checkpoint import list_checkpoints
from mtkit.training.config import TrackerName

FiniteFloat = Annotated[float, Limits(gt=-math.inf, lt=math.inf)]
FORMAT = 3  # raised when a training of an older version can no longer be continued
FIRST_VERSION = {"format": 1, "mtkit": "0.1.0"}  # wrote no version.json
ARTEFACTS = ("adapter", "hyps", "nonfinite", *get_args(TrackerName))  # folders that belong to a training

_REMEDY = "mtkit run makes it again"
_TRAIN_AGAIN = "train it again (--fresh, or another --run-dir)"


@dataclass(frozen=True)
class TrainingRecord:
    """Checked fields of `train` in report.json."""

    updates: int
    precision: str
    tokens_per_second: FiniteFloat
    best_update: int | None


@dataclass(frozen=True)
class TestRecord:
    """Checked fields of one test set in report.json; only the metrics of the recipe are present."""

    bleu: FiniteFloat = 0.0
    chrf: FiniteFloat = 0.0
    ter: FiniteFloat = 0.0
    bleu_signature: str = ""
    chrf_signature: str = ""
    ter_signature: str = ""
    seconds: FiniteFloat = 0.0


@dataclass(frozen=True)
class RunRecord:
    """Checked fields of report.json; either may be absent."""

    train: TrainingRecord = TrainingRecord(updates=0, precision="", tokens_per_second=0.0, best_update=None)
    test: dict[str, TestRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class Fingerprints:
    """Fields of fingerprints.json: hashes of the inputs of each translation and of its text, and of those of scores."""

    test: dict[str, list[str]] = field(default_factory=dict)
    scores: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WrittenBy:
    """Fields of version.json: the format of the run folder and the version of mtkit that wrote it."""

    format: int
    mtkit: str


def read_json(path: Path, schema: type[object] | None = None, *, remedy: str = _REMEDY) -> Json:
    """Read a JSON object; a missing file is an empty object.

    Args:
        schema: a dataclass with the types of known fields; other fields are allowed.

    Raises:
        DamagedError: it does not match its checksum, or a field is missing or has the wrong type.
    """
    if not path.is_file():
        return {}
    content = read_record(path, remedy=remedy)
    if schema is None:
        return content
    if (key := misfit(content, schema)) is not None:
        raise DamagedError(f"{path}: damaged: {key} is missing or has the wrong type", remedy)
    return content


class RunFolder:
    """Paths of the files in a run folder (see the top of this module), and access to its records."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe, self.version = path / RECIPE, path / VERSION
        self.tokenizer, self.corpus = path / "tokenizer", path / "corpus"
        self.lexicon = self.corpus / "lexicon.safetensors"
        self.adapter = path / "adapter"
        self.checkpoints, self.model = path / "checkpoints", path / "model"
        self.log, self.report, self.fingerprints = (
            path / name for name in ("log.jsonl", "report.json", "fingerprints.json")
        )

    def train(self, number: int) -> Path:
        """Folder of a binarised training corpus, numbered from 0."""
        return self.corpus / f"train.{number}"

    def valid(self, number: int) -> Path:
        """Folder of the n-th binarised validation set."""
        return self.corpus / (f"valid.{number}" if number else "valid")

    def open_train(self, recipe: Recipe) -> list[Store]:
        """The binarised training corpora; errors as `Store`."""
        return [Store(self.train(number)) for number in range(len(recipe.corpus.train))]

    def open_valid(self, recipe: Recipe) -> list[Store]:
        """The binarised validation sets; errors as `Store`."""
        return [Store(self.valid(number)) for number in range(len(recipe.corpus.valid_sets))]

    def hyps(self, test: str) -> Path:
        """Translation of a test set."""
        return self.path / "hyps" / f"{test}.txt"

    def folders_with_temporaries(self) -> list[Path]:
        """Folders in which files and folders are written under temporary names first."""
        return [self.path, self.corpus, self.checkpoints, *(self.path / name for name in ARTEFACTS)]

    def read_report(self) -> Json:
        """Return the content of report.json, empty if it does not exist; errors as `read_json`."""
        return read_json(self.report, RunRecord)

    def read_fingerprints(self) -> Json:
        """Return the content of fingerprints.json, empty if it does not exist; errors as `read_json`."""
        return read_json(self.fingerprints, Fingerprints)

    def load_recipe(self) -> Recipe:
        """Read the saved recipe.

        Raises:
            MissingInputError: there is none.
            DamagedError: it is damaged.
            FormatError: another version of mtkit wrote the folder in a format, or with recipe keys, that this one does
                not read.
        """
        if not self.has_training() and not self.recipe.is_file():
            raise MissingInputError(f"{self.path}: not a run folder; it has no recipe.yaml")
        self.check_format()
        try:
            return load_saved(self.recipe)
        except RecipeError as error:
            writer = self._written_by()["mtkit"]
            if writer == __version__:
                raise
            reason = f"with a recipe that mtkit {__version__} does not read ({str(error).partition(chr(10))[0]})"
            raise FormatError(self.path, writer, reason, _TRAIN_AGAIN) from error

    def check_format(self) -> None:
        """Check that a training in this folder was written in the current format.

        Raises:
            FormatError: it was not; nothing is changed.
        """
        writer = self._written_by()
        if self.has_training() and writer["format"] != FORMAT:
            reason = f"in run folder format {writer['format']}, but mtkit {__version__} reads format {FORMAT}"
            raise FormatError(self.path, writer["mtkit"], reason, _TRAIN_AGAIN)

    def _written_by(self) -> Json:
        """Return version.json. If it is missing or damaged, a recipe with a checksum shows the present format."""
        try:
            if self.version.is_file():
                return read_json(self.version, WrittenBy, remedy="restore it, or recipe.yaml, from a copy")
        except DamagedError:
            older = older_format(self.version)
            if older is not None and older[0] != FORMAT:
                return {"format": older[0], "mtkit": older[1]}
            if not self._has_recipe():
                raise
        return {"format": FORMAT, "mtkit": __version__} if self._has_recipe() else FIRST_VERSION

    def _has_recipe(self) -> bool:
        return self.recipe.is_file() and is_text_record(self.recipe)

    def write_version(self) -> None:
        """Write version.json for this version of mtkit.

        Raises:
            ReadWriteError: the file cannot be written.
        """
        write_record(self.version, {"format": FORMAT, "mtkit": __version__})

    def version_damage(self) -> str | None:
        """Return a message if version.json is missing or damaged."""
        try:
            read_record(self.version, remedy="")
        except (DamagedError, MissingInputError) as error:
            return str(error).removesuffix("; ")
        return None

    def has_part(self, file: Path) -> bool:
        """Return whether a file below this folder is a record, or belongs to the tokenizer, corpus or checkpoints."""
        try:
            self._written_by()
        except DamagedError:  # version.json of another program
            return False
        records = (self.recipe, self.version, self.report, self.fingerprints, self.log)
        return file in records or any(map(file.is_relative_to, (self.tokenizer, self.corpus, self.checkpoints)))

    def has_training(self) -> bool:
        """Return whether there is training that must not be lost."""
        return bool(list_checkpoints(self.checkpoints)) or self.model.is_dir()

    def delete_training(self) -> None:
        """Delete the training and everything made from it.

        Raises:
            ReadWriteError: a file cannot be deleted.
        """
        with translate_write_errors(self.path):
            for folder in (self.checkpoints, self.model, *(self.path / name for name in ARTEFACTS)):
                if folder.is_dir():
                    shutil.rmtree(folder)
            for file in (self.log, self.report, self.fingerprints, self.version, *self.path.glob("damaged-*.json")):
                file.unlink(missing_ok=True)


class _Dumper(yaml.SafeDumper):
    """YAML writer that quotes every string that YAML 1.1 or 1.2 would read as another type."""


for _first, _pairs in StrictLoader.yaml_implicit_resolvers.items():
    for _tag, _pattern in _pairs:
        _Dumper.add_implicit_resolver(_tag, _pattern, [_first])


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write a recipe with a checksum, every key and absolute paths, so that it is independent of its location.

    Raises:
        ReadWriteError: the file cannot be written.
    """
    write_text_record(path, recipe_text(to_plain(recipe)))


def recipe_text(plain: Mapping[str, Any]) -> str:
    """Return the YAML of a recipe's values."""
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
