"""The repository: forbidden constructs, public names, changelog, version."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import mtkit
from tests.unit.house.source_code import FILES, PACKAGE, PROGRAMS, ROOT, SOURCES, name, tree


def faults_of_node(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(attr="splitlines"):
            yield "splitlines splits on ten characters"
        case ast.Import(names=names) if any(alias.name.split(".")[0] in ("pickle", "dill") for alias in names):
            yield "pickle"
        case ast.ImportFrom(module="pickle" | "dill"):
            yield "pickle"
        case ast.Attribute(value=ast.Name(id="torch"), attr="load" | "save" as what):
            yield f"torch.{what} is pickle; use safetensors"
        case ast.Call(func=ast.Name(id="eval" | "exec" as what)):
            yield what
        case ast.Call(func=ast.Name(id="getattr"), args=[_, _, _]):
            yield "getattr with a default"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="cfg" | "config"), attr="get")):
            yield "a configuration is not asked whether a key exists"
        case ast.ExceptHandler(type=None):
            yield "a bare except"
        case ast.ExceptHandler(type=ast.Name(id="Exception")):
            yield "except Exception"
        case ast.Assert():
            yield "assert is for tests"
        case ast.ImportFrom(names=names) if any(alias.name == "*" for alias in names):
            yield "import *"


def test_nothing_forbidden_is_written() -> None:
    found = [
        f"{name(path)}:{node.lineno}: {fault}"  # type: ignore[attr-defined]
        for path in SOURCES
        for node in ast.walk(tree(path))
        for fault in faults_of_node(node)
    ]
    assert found == []


def test_nothing_is_left_to_do() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "X" * 3)
    sources = [*SOURCES, *PROGRAMS, *sorted((ROOT / "recipes").rglob("*.yaml"))]
    found = {name(path) for path in sources if any(mark in path.read_text(encoding="utf-8") for mark in marks)}
    assert found == set()


def test_public_names() -> None:
    assert sorted(mtkit.__all__) == [
        "MtkitError",
        "Recipe",
        "Report",
        "Scores",
        "Translation",
        "Translator",
        "__version__",
        "evaluate",
        "evaluate_run",
        "load_model",
        "load_recipe",
        "run",
        "train",
    ]


@pytest.mark.parametrize("public", sorted(mtkit.__all__))
def test_public_names_are_there(public: str) -> None:
    assert getattr(mtkit, public).__doc__ or public == "__version__"


def test_no_public_name_is_that_of_a_module() -> None:
    modules = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in FILES}
    assert modules & set(mtkit.__all__) == set()


def test_unknown_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = mtkit.nonsense


def tracked() -> list[str]:
    """What git knows; nothing where the tests run from an unpacked archive."""
    if not (ROOT / ".git").exists():
        return []
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True, text=True)
    return [file for file in listed.stdout.split("\0") if file]


def test_top_folders_are_the_known_ones() -> None:
    tops = {Path(file).parts[0] for file in tracked() if len(Path(file).parts) > 1}
    assert tops <= {"mtkit", "tests", "recipes", "data", "docs", "tools", ".ci", ".github"}


def test_changelog_has_a_place_for_what_is_new() -> None:
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().split("\n") if line.startswith("## ")]
    assert headings[0] == "## Unreleased"


def test_version_is_stated_once_more_only_in_the_package() -> None:
    assert f'version = "{mtkit.__version__}"' in (ROOT / "pyproject.toml").read_text()
