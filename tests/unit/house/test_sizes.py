"""Sizes: lines of files and functions, nesting, parameters, modules in a folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.unit.house.source_code import FILES, FUNCTION, PACKAGE, PROGRAMS, ROOT, SOURCES, functions, name

MAX_MODULES = 13  # in a folder, its __init__ included; a folder of kinds has as many as there are kinds


MAX_LINES = 340  # 300 is the guide; where a file ends is decided by what belongs together, not by this number


MAX_FUNCTION_LINES = 50


MAX_NESTING = 3


MAX_PARAMETERS = 8


DEEPER = ast.If | ast.For | ast.While | ast.With | ast.Try | ast.Match | ast.AsyncFor | ast.AsyncWith


def test_folders_can_be_taken_in_at_a_glance() -> None:
    folders = {path.parent for path in FILES}
    counts = {name(folder): len([*folder.glob("*.py")]) for folder in folders}
    assert {f: n for f, n in counts.items() if n > MAX_MODULES and not has_union(ROOT / f)} == {}


def has_union(folder: Path) -> bool:
    """Whether a module of the folder writes out a union of kinds, to which a new kind is added."""
    union = re.compile(r"^\w+ = (\(\n    )?\w+\s+\| ", re.MULTILINE)
    return any(union.search(file.read_text()) for file in folder.glob("*.py"))


def test_files_are_short() -> None:
    sources = [*SOURCES, *PROGRAMS]
    lengths = {name(path): path.read_text(encoding="utf-8").count("\n") for path in sources}
    assert {file: length for file, length in lengths.items() if length > MAX_LINES} == {}


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines without the docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None and first.end_lineno is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def nesting(node: ast.AST, depth: int = 0) -> int:
    """How deep blocks stand in blocks; an `elif` is no deeper than its `if`, and a function inside begins anew."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTION | ast.ClassDef | ast.Lambda):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        step = isinstance(child, DEEPER) and not is_elif
        deepest = max(deepest, nesting(child, depth + step))
    return deepest


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([argument for argument in every if argument.arg not in ("self", "cls")])


def is_command(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return path.parent.parent == PACKAGE / "cli" / "commands" and function.name == path.stem


def test_functions_are_short_flat_and_take_few_parameters() -> None:
    faults = []
    for path in SOURCES:
        for function in functions(path):
            place = f"{name(path)}:{function.lineno}: {function.name}"
            if length(function) > MAX_FUNCTION_LINES and not is_command(path, function):
                faults.append(f"{place}: {length(function)} lines")
            if nesting(function) > MAX_NESTING:
                faults.append(f"{place}: nesting {nesting(function)}")
            if parameters(function) > MAX_PARAMETERS and not is_command(path, function):
                faults.append(f"{place}: {parameters(function)} parameters")
    assert faults == []
