"""The architectures of other programs that mtkit imports, by the `model_type` of their config.json."""

from __future__ import annotations

from mtkit.errors import DataError
from mtkit.importers.architectures.architecture import ForeignArchitecture
from mtkit.importers.architectures.m2m100 import M2M100
from mtkit.importers.architectures.marian import Marian
from mtkit.importers.architectures.mbart import MBart
from mtkit.importers.foreign_folder import Fields, shown

ARCHITECTURES: dict[str, ForeignArchitecture] = {each.name: each for each in (Marian(), M2M100(), MBart())}


def find_architecture(fields: Fields) -> ForeignArchitecture:
    """The architecture of a config.json; DataError if there is none of its name, with those that there are."""
    name = fields.values.get("model_type")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        known = "; ".join(f"{each.name} ({each.description})" for each in ARCHITECTURES.values())
        raise DataError(f"{fields.path}: model_type: {shown(name)}; mtkit imports {known}")
    return ARCHITECTURES[name]
