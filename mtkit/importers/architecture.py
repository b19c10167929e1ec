"""Description of an architecture of another program: its configuration, weights and tokenizers in mtkit's terms.

Each architecture, or family of them, has a file, and import_model.py lists it; docs/import.md explains how to add one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from mtkit.errors import DataError
from mtkit.importers.foreign_folder import Fields, ForeignFolder, shown
from mtkit.importers.vocabulary import ForeignTokenizers, LanguagePair
from mtkit.models.config import ModelConfig

ConfigT = TypeVar("ConfigT", bound=ModelConfig)


@dataclass(frozen=True)
class WeightNames:
    """Names of one weight of mtkit in the files of another program.

    Attributes:
        ours: its name here, as a model folder has it.
        theirs: the tensors whose concatenation it is, along the first dimension; none: it is 0. A tensor may be part of
            several weights.
        instead: tensors that are tied to the only one of `theirs`, and may stand in the file instead of it.
        skipped: rows at the beginning that nothing reads.
        is_optional: it is 0 if the file has none of its tensors.
    """

    ours: str
    theirs: tuple[str, ...]
    instead: tuple[str, ...] = ()
    skipped: int = 0
    is_optional: bool = False


class ForeignArchitecture(ABC, Generic[ConfigT]):
    """An architecture of another program: any of which mtkit has a model.

    The shapes of the weights are those of the model that `config` builds.

    Attributes:
        name: `model_type` in config.json.
        description: the models that it covers, for messages.
        unused_weights: tensors of their files that are constants, or repeat others and are in no `WeightNames`.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    unused_weights: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def config(self, fields: Fields) -> ConfigT:
        """The configuration of the model.

        Args:
            fields: of config.json.

        Raises:
            DataError: a key has a value that mtkit does not compute; the message names it.
        """

    @abstractmethod
    def weights(self, config: ConfigT) -> Iterator[WeightNames]:
        """All weights of the model, each once."""

    def notes(self, fields: Fields, direction: LanguagePair) -> Iterator[str]:
        """Sentences for the user about the use of the model in a direction."""
        return iter(())

    @abstractmethod
    def tokenizers(self, folder: ForeignFolder, fields: Fields, direction: LanguagePair) -> ForeignTokenizers:
        """The tokenizers, with the ids of the model.

        Args:
            folder: with the files of the tokenizers.
            fields: of config.json.
            direction: the languages, for a model of many languages whose texts begin with the name of theirs.

        Raises:
            MissingInputError, DataError: a file is missing, damaged or of another model.
        """


def require(fields: Fields, expected: Mapping[str, object]) -> None:
    """Refuse values of keys that have another than the expected one, which mtkit computes; a missing key has it.

    Raises:
        DataError: names the first such key.
    """
    for key, value in expected.items():
        fields.read.add(key)
        found = fields.values.get(key)
        if found is not None and found != value:
            raise DataError(f"{fields.path}: {key}: {shown(found)}; mtkit imports models with {shown(value)} alone")
