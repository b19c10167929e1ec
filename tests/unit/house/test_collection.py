"""Collection: every file of tests is one that pytest collects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.house.source_code import ROOT


def ignored_path(file: Path, config: pytest.Config) -> Path | None:
    """The file, or the folder above it, that pytest passes over; None: the file is collected."""
    parents = [parent for parent in file.parents if parent.is_relative_to(ROOT / "tests")]
    for path in [*reversed(parents), file]:
        if config.hook.pytest_ignore_collect(collection_path=path, config=config):
            return path
    return None


def test_every_file_of_tests_is_collected(pytestconfig: pytest.Config) -> None:
    ignored = {ignored_path(file, pytestconfig) for file in (ROOT / "tests").rglob("test_*.py")}
    assert ignored <= {None}, "pytest passes over these (norecursedirs): rename them"


def test_a_folder_named_like_a_build_product_is_passed_over(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """The default `norecursedirs`, because of which 39 tests were once not run."""
    (tmp_path / "build").mkdir()
    assert pytestconfig.hook.pytest_ignore_collect(collection_path=tmp_path / "build", config=pytestconfig)
