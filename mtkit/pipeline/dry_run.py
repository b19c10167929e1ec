"""What a training would cost: parameters, memory and time, without the corpus."""

from __future__ import annotations

from mtkit.recipe import Recipe


def dry_run(recipe: Recipe) -> str:
    """The text that `--dry-run` prints."""
    raise NotImplementedError
