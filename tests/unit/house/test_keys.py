"""Keys of a recipe: each has a meaning and a reason, and docs/recipe-keys.md lists them all."""

from __future__ import annotations

import re

from mtkit.recipe.reference import as_markdown, key_groups
from mtkit.recipe.sections import Recipe
from tests.unit.house.source_code import ROOT


def test_every_key_has_a_meaning_and_its_default_a_reason() -> None:
    """The comment above a field: a sentence, then `Default: why`."""
    keys = [(f"{group.heading}: {key.name}", key) for group in key_groups(Recipe) for key in group.keys]
    assert [name for name, key in keys if not re.fullmatch(r"[A-Z].*\.", key.meaning)] == []
    assert [name for name, key in keys if key.default != "required" and not key.reason] == []
    assert [name for name, key in keys if re.match("Of ", key.meaning)] == []


def test_the_reference_is_up_to_date() -> None:
    """If not: mtkit keys --markdown > docs/recipe-keys.md"""
    assert (ROOT / "docs" / "recipe-keys.md").read_text(encoding="utf-8") == as_markdown(key_groups(Recipe))
