"""The source of the package as syntax trees, for the tests of this folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]


PACKAGE = ROOT / "mtkit"


FILES = sorted(PACKAGE.rglob("*.py"))


SOURCES = [*FILES, *sorted((ROOT / "data").rglob("*.py"))]


PROGRAMS = sorted(path for folder in ("tests", "tools") for path in (ROOT / folder).rglob("*.py"))


FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, FUNCTION))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
