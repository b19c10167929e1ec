"""Values of a configuration with the place where each was written, for messages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND_LINE = "command line"  # location of an override in messages


@dataclass(frozen=True)
class Origin:
    """Source of a value: file and line, or the command line."""

    location: str  # "recipes/quickstart.yaml:14", or "command line"
    folder: Path  # base of relative paths
    from_file: bool


class InvalidValue:
    """Type of `INVALID`, the placeholder for a value that could not be read; its error has been recorded."""


INVALID = InvalidValue()


@dataclass
class LocatedValue:
    """Value with its origin: a scalar, a dict of `LocatedValue`, or a list of `LocatedValue`."""

    value: Any
    origin: Origin

    def to_plain(self) -> Any:
        """The value without origins: scalars, dicts and lists."""
        if isinstance(self.value, dict):
            return {key: item.to_plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.to_plain() for item in self.value]
        return self.value

    def at(self, path: str) -> LocatedValue | None:
        """The value at a dotted path through mappings; None if there is none."""
        located = self
        for key in path.split("."):
            if not isinstance(located.value, dict) or key not in located.value:
                return None
            located = located.value[key]
        return located

    def states(self, path: str) -> bool:
        """Return whether there is a value at a path, or another than a mapping on the way, such as `ema: null`."""
        located = self
        for key in path.split("."):
            if not isinstance(located.value, dict):
                return True
            if key not in located.value:
                return False
            located = located.value[key]
        return True


def with_location(value: Any, location: str, folder: Path) -> LocatedValue:
    """Attach one origin to plain values, so that they can be checked like those of a file."""
    origin = Origin(location, folder, from_file=True)
    if isinstance(value, dict):
        return LocatedValue({key: with_location(item, location, folder) for key, item in value.items()}, origin)
    if isinstance(value, list):
        return LocatedValue([with_location(item, location, folder) for item in value], origin)
    return LocatedValue(value, origin)
