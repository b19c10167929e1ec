"""Pickling of errors, and their messages."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from mtkit.errors import (
    DamagedError,
    FormatError,
    Interrupted,
    MissingExtraError,
    MtkitError,
    UsageError,
    require_extra,
)


@pytest.mark.parametrize(
    "error",
    [
        UsageError("a"),
        DamagedError("a", "b"),
        FormatError(Path("a"), "0.1.0", "in format 1", "train it again"),
        MissingExtraError("moses", "sacremoses"),
        Interrupted(15, "c"),
    ],
)
def test_pickling_keeps_type_message_and_attributes(error: MtkitError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_a_format_error_names_both_versions_and_the_remedy() -> None:
    error = FormatError(Path("m"), "0.1.0", "in format 1, but mtkit 0.2.0 reads format 2", "train it again")
    assert error.exit_code == 65
    assert str(error) == (
        "m: written by mtkit 0.1.0 in format 1, but mtkit 0.2.0 reads format 2; train it again, or use mtkit 0.1.0"
    )


@pytest.mark.parametrize("content", [None, "from os import nothing"])
def test_an_optional_package_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    """It is missing, or another version of a package that it needs is installed."""
    if content is not None:
        (tmp_path / "optional_package.py").write_text(content)
        monkeypatch.syspath_prepend(tmp_path)
    message = r"needs the package gensim: pip install 'mtkit\[vectors\]'"
    with pytest.raises(MissingExtraError, match=message), require_extra("vectors", "gensim"):
        import optional_package  # noqa: F401
