"""Counts in sentences for the user."""

from __future__ import annotations


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: "1 pair", "1,234 pairs"; the noun takes -s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
