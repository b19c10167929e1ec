"""Differences between the weights of a model and those that it is given: missing, unknown, or of another shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MAX_LISTED = 3  # mismatches in a message


def shape_mismatches(expected: Mapping[str, Sequence[int]], found: Mapping[str, Sequence[int]]) -> list[str]:
    """An error for each weight that differs, sorted; both arguments have shapes by name."""
    return sorted(
        [f"{name} is missing" for name in expected.keys() - found.keys()]
        + [f"{name} is unknown" for name in found.keys() - expected.keys()]
        + [
            f"{name} is {list(found[name])}, the model has {list(shape)}"
            for name, shape in expected.items()
            if name in found and list(found[name]) != list(shape)
        ]
    )


def first_of(mismatches: Sequence[str]) -> str:
    """The first mismatches, and how many there are beyond."""
    listed = "; ".join(mismatches[:MAX_LISTED])
    return f"{listed}; and {len(mismatches) - MAX_LISTED} more" if len(mismatches) > MAX_LISTED else listed
