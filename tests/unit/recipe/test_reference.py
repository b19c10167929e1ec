"""Reference of recipe keys: complete, with reasons, and equal to docs/recipe-keys.md."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

import pytest

from mtkit.cli import entry
from mtkit.config import Limits, config
from mtkit.recipe.reference import describe_hint, field_comments, format_default, key_groups
from mtkit.recipe.sections import Recipe
from mtkit.recipe.type_hints import key_paths


@config
class Lower:
    """A mapping without a kind (in the summary).

    More about it.
    """

    # Size of the base class. Default: three.
    size: int = 3


@config
class Upper(Lower):
    """First line
    of the summary.
    """

    # A rate whose comment
    # goes on. Default: a half,
    # for a reason.
    rate: Annotated[float, Limits(ge=0, lt=1)] = 0.5  # not a comment above
    size: int = 4

    # Words that are required.
    words: list[str]
    inner: Lower = field(default_factory=Lower)


def test_comments_are_found_above_fields_and_inherited() -> None:
    assert field_comments(Upper) == {
        "size": "Size of the base class. Default: three.",
        "rate": "A rate whose comment goes on. Default: a half, for a reason.",
        "words": "Words that are required.",
    }


def test_meaning_and_reason_are_apart() -> None:
    upper, lower = key_groups(Upper)
    assert (upper.summary, lower.paths) == ("First line of the summary.", ["inner"])
    assert lower.summary == "A mapping without a kind (in the summary)."
    keys = {key.name: (key.default, key.meaning, key.reason) for key in upper.keys}
    assert keys["rate"] == ("0.5", "A rate whose comment goes on.", "a half, for a reason.")
    assert keys["words"] == ("required", "Words that are required.", "")
    assert keys["inner"] == ("its defaults", "", "")


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "integer"),
        (Annotated[int, Limits(gt=0)], "integer > 0"),
        (Annotated[int, Limits(ge=0, lt=2**63)], "integer in [0, 2^63)"),
        (Annotated[float, Limits(gt=0, le=1)] | None, "number in (0, 1] or null"),
        (Annotated[int, Limits(gt=0)] | Literal["auto"], "integer > 0 or auto"),
        (Annotated[list[Path], Limits(min_length=1)], "list of path, at least 1"),
        (Annotated[str, Limits(pattern="^x", description="a name with x")], "string: a name with x"),
        (dict[str, bool], "mapping from names to true or false"),
    ],
)
def test_types_and_ranges_in_words(hint: object, words: str) -> None:
    assert describe_hint(hint) == words


def test_defaults_are_written_as_in_a_recipe() -> None:
    assert [format_default(value) for value in (None, True, 1e-4, ["a", 1])] == ["null", "true", "0.0001", "[a, 1]"]


@pytest.mark.whole
def test_every_key_is_listed() -> None:
    listed = {
        f"{path}.{key.name}".lstrip(".") for group in key_groups(Recipe) for path in group.paths for key in group.keys
    }
    assert {path for paths in key_paths(Recipe).values() for path in paths} - listed == set()


def test_every_kind_has_a_summary() -> None:
    assert [group.heading for group in key_groups(Recipe) if not group.summary] == []


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
