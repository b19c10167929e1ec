"""Reference of recipe keys: complete, with reasons, and equal to docs/recipe-keys.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from mtkit.cli import entry
from mtkit.recipe.reference import as_markdown, describe_hint, field_comments, format_default, key_groups
from mtkit.recipe.sections import Recipe
from mtkit.recipe.type_hints import key_paths

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, kw_only=True)
class Lower:
    """A mapping without a kind (not in the summary: see below).

    More about it.
    """

    size: int = 3  # of the base class


@dataclass(frozen=True, kw_only=True)
class Upper(Lower):
    """First line
    of the summary.
    """

    # the comment above
    # goes on
    rate: Annotated[float, Field(ge=0, lt=1)] = 0.5  # and beside
    size: int = 4
    words: list[str] = field(default_factory=list)  # at the end of several lines
    inner: Lower = field(default_factory=Lower)


def test_comments_are_found_beside_and_above_fields_and_inherited() -> None:
    assert field_comments(Upper) == {
        "size": "of the base class",
        "rate": "the comment above goes on and beside",
        "words": "at the end of several lines",
    }


def test_a_mapping_without_a_comment_has_its_docstring_as_reason() -> None:
    upper, lower = key_groups(Upper)
    assert (upper.summary, lower.paths) == ("First line of the summary.", ["inner"])
    reason = {key.name: key.reason for key in upper.keys}["inner"]
    assert reason == lower.summary == "A mapping without a kind (not in the summary: see below)."


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "integer"),
        (Annotated[int, Field(gt=0)], "integer > 0"),
        (Annotated[int, Field(ge=0, lt=2**63)], "integer in [0, 2^63)"),
        (Annotated[float, Field(gt=0, le=1)] | None, "number in (0, 1] or null"),
        (Annotated[int, Field(gt=0)] | Literal["auto"], "integer > 0 or auto"),
        (Annotated[list[Path], Field(min_length=1)], "list of path, at least 1"),
        (Annotated[str, Field(pattern="^x", description="a name with x")], "string: a name with x"),
        (dict[str, bool], "mapping from names to true or false"),
    ],
)
def test_types_and_ranges_in_words(hint: object, words: str) -> None:
    assert describe_hint(hint) == words


def test_defaults_are_written_as_in_a_recipe() -> None:
    assert [format_default(value) for value in (None, True, 1e-4, ["a", 1])] == ["null", "true", "0.0001", "[a, 1]"]


def test_every_key_is_listed() -> None:
    listed = {
        f"{path}.{key.name}".lstrip(".") for group in key_groups(Recipe) for path in group.paths for key in group.keys
    }
    assert {path for paths in key_paths(Recipe).values() for path in paths} - listed == set()


def test_every_key_has_a_reason() -> None:
    missing = [f"{group.heading}: {key.name}" for group in key_groups(Recipe) for key in group.keys if not key.reason]
    assert missing == []


def test_every_kind_has_a_summary() -> None:
    assert [group.heading for group in key_groups(Recipe) if not group.summary] == []


def test_the_page_is_up_to_date() -> None:
    """If not: mtkit keys --markdown > docs/recipe-keys.md"""
    assert (ROOT / "docs" / "recipe-keys.md").read_text(encoding="utf-8") == as_markdown(key_groups(Recipe))


def test_the_command_lists_a_section_a_key_or_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.execute(["keys", "training.optimiser"]) == 0
    section = capsys.readouterr().out
    assert "training.optimiser, kind: adamw" in section
    assert "training.optimiser.learning_rate: number > 0; default: " in section
    assert "model.d_model" not in section
    assert entry.execute(["keys", "search.beam_size"]) == 0
    assert capsys.readouterr().out.count("search.beam_size: integer in (0, 1000]; default: 5.") == 1
    assert entry.execute(["keys", "beam_size"]) == 0
    assert "training.validation.beam_size" in capsys.readouterr().out
    assert entry.execute(["keys"]) == 0
    assert len(capsys.readouterr().out.split("\n")) > 300


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("lr", "keys: lr: no such key; did you mean training.optimiser.learning_rate? (the peak, after warm-up)"),
        ("search.bem_size", "keys: search.bem_size: no such key; did you mean search.beam_size?"),
        ("objektive", "keys: objektive: no such key; did you mean objective?"),
        ("zzz", "keys: zzz: no such key"),
    ],
)
def test_the_command_answers_an_unknown_prefix(prefix: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.execute(["keys", prefix]) == 2
    assert message in capsys.readouterr().err
