"""Files of a model of another program: tables in JSON, weights, and the head of the model card.

A model is a folder, or the name of one on the hub of Hugging Face, which comes through the package huggingface_hub and
its cache.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.display import printable
from mtkit.errors import DataError, MissingInputError, RecipeError, require_extra
from mtkit.importers.torch_file import read_torch_file
from mtkit.inference.packing import as_float32
from mtkit.io.files import read_file
from mtkit.io.json_text import parse_json
from mtkit.model_folder.safetensors_file import map_tensors
from mtkit.recipe.yaml_reader import read_yaml

GENERATION = "generation_config.json"
SAFETENSORS, INDEX, PICKLED = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
HUB_FILES = ("*.json", "*.spm", "*.model", "README.md", SAFETENSORS, INDEX, "model-*.safetensors")  # PICKLED comes last
_HUB_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_HEAD = re.compile(r"---\r?\n(.*?)\n---", re.DOTALL)
MAX_LAYERS, MAX_COUNT = 1000, 10_000_000  # of a stack; of any other number, such as the size of a vocabulary
MAX_CARD = 1 << 20  # characters of a model card
FLOATS = (np.float16, np.float32, np.float64, np.uint16)  # uint16 holds the bits of bfloat16


@dataclass(frozen=True)
class Fields:
    """A table of JSON, with the file that it comes from.

    Attributes:
        values: by key.
    """

    path: Path
    values: Mapping[str, Any]

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """The value of a key; DataError if it is of another type. A missing key, and null, have the default."""
        value = self.values.get(key)
        if value is None:
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if type(value) not in kinds:
            raise DataError(
                f"{self.path}: {key}: {shown(value)}; {' or '.join(each.__name__ for each in kinds)} is expected"
            )
        return value

    def count(self, key: str, most: int = MAX_COUNT) -> int:
        """The value of a key that is a number from 1 to `most`; DataError if it is missing."""
        value = self.get(key, int)
        if value is None or value <= 0:
            raise DataError(f"{self.path}: {key}: {shown(value)}; a number above 0 is expected")
        if value > most:
            raise DataError(f"{self.path}: {key}: {shown(value)}; at most {most:,} is read")
        return int(value)


def shown(value: Any) -> str:
    """A value in a message."""
    return printable(repr(value), 100)


@dataclass(frozen=True)
class ForeignFolder:
    """The folder of a model of another program."""

    path: Path

    def has(self, name: str) -> bool:
        """Return whether there is such a file."""
        return (self.path / name).is_file()

    def table(self, name: str) -> Fields:
        """Read a table of JSON.

        Raises:
            MissingInputError, ReadWriteError: there is none, or it cannot be read.
            DataError: it is no table.
        """
        path = self.path / name
        try:
            values = parse_json(self.bytes(name))
        except ValueError as error:
            raise DataError(f"{path}: damaged, cut off, or no JSON ({error}); copy it again") from error
        if not isinstance(values, dict):
            raise DataError(f"{path}: a table is expected; copy it again")
        return Fields(path, values)

    def optional_table(self, name: str) -> Fields:
        """As `table`, empty if there is no such file."""
        return self.table(name) if self.has(name) else Fields(self.path / name, {})

    def bytes(self, name: str) -> bytes:
        """Read a file."""
        return read_file(self.path / name)

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Read all tensors of floats, as float32, by name.

        Raises:
            MissingInputError, ReadWriteError: there is no file of weights, or it cannot be read.
            DataError: it is damaged, or of another kind.
        """
        if self.has(SAFETENSORS):
            names = [SAFETENSORS]
        elif self.has(INDEX):
            listed = self.table(INDEX).get("weight_map", dict, {}).values()
            names = sorted({Path(str(each)).name for each in listed})
        elif self.has(PICKLED):
            names = [PICKLED]
        else:
            raise MissingInputError(f"{self.path}: has neither {SAFETENSORS} nor {PICKLED}; copy the weights there")
        arrays: dict[str, NDArray[Any]] = {}
        for name in names:
            arrays |= read_torch_file(self.path / name) if name == PICKLED else self._safetensors(name)
        return {name: as_float32(array) for name, array in arrays.items() if array.dtype in FLOATS}

    def _safetensors(self, name: str) -> Mapping[str, NDArray[Any]]:
        try:
            return map_tensors(self.path / name)[1]
        except ValueError as error:
            raise DataError(
                f"{self.path / name}: damaged, cut off, or not in the safetensors format ({error}); copy it again"
            ) from error

    def card(self) -> dict[str, Any]:
        """The head of README.md, in YAML, between two lines of hyphens; empty if there is none."""
        if not self.has("README.md"):
            return {}
        text = self.bytes("README.md")[:MAX_CARD].decode(errors="replace")
        if not (match := _HEAD.match(text)):
            return {}
        errors: list[str] = []
        try:
            values = read_yaml(match[1], "README.md", self.path, errors).to_plain()
        except RecipeError:
            return {}
        return values if isinstance(values, dict) else {}


def is_hub_name(model: Path) -> bool:
    """Return whether MODEL is no folder here, and has the form ORGANISATION/NAME."""
    return not model.exists() and _HUB_NAME.fullmatch(str(model)) is not None


def download(name: str) -> Path:
    """The folder of a model in the cache; its files are downloaded unless HF_HUB_OFFLINE is set.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        MissingInputError: the hub cannot be reached, or has no such model; the message says how to bring it by hand.
    """
    by_hand = (
        f"where a browser reaches it, save all files of https://huggingface.co/{name}/tree/main in a folder, copy that "
        "here, and give its name"
    )
    with require_extra("hub", "huggingface_hub", instead=by_hand):
        import huggingface_hub
        from huggingface_hub.errors import (
            HfHubHTTPError,
            HFValidationError,
            LocalEntryNotFoundError,
            OfflineModeIsEnabled,
        )
    try:
        folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=list(HUB_FILES)))
        if not any(folder.glob("*.safetensors")):
            folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=[*HUB_FILES, PICKLED]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = printable(str(error).strip().partition("\n")[0], 200)
        raise MissingInputError(
            f"{name}: no such folder, and not loaded from the hub ({type(error).__name__}: {reason}); {by_hand}"
        ) from error
    return folder
