"""Sizes: lines of files and functions, nesting, positional parameters."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.unit.house.source_code import FUNCTION, PACKAGE, PROGRAMS, SOURCES, functions, name

MAX_LINES = 600  # a file ends where its subject ends


MAX_FUNCTION_LINES = 60


MAX_NESTING = 3


MAX_PARAMETERS = 7  # that may be passed by position; 5 is the guide, but autograd passes all of them so


DEEPER = ast.If | ast.For | ast.While | ast.With | ast.Try | ast.Match | ast.AsyncFor | ast.AsyncWith


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
    """Parameters that a caller may pass by position."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    return len([argument for argument in arguments if argument.arg not in ("self", "cls", "ctx")])


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
