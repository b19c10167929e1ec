"""Configurations: they are read and checked without torch and numpy, whose import takes longer than all checks."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

from tests.unit.house.source_code import FILES, ROOT, module_of, name, tree

MIN_KINDS = 100  # of 110; fewer mean that they are written in another way, which is not found


def count_kinds(text: str) -> int:
    """How many configurations of kinds a module defines."""
    return len(re.findall(r"(?m)^    kind: Literal\[", text))


def test_configurations_are_imported_without_torch_and_numpy() -> None:
    kinds = {module_of(path): count for path in FILES if (count := count_kinds(path.read_text()))}
    assert sum(kinds.values()) > MIN_KINDS
    modules = [*kinds]
    program = """if True:
        import importlib, sys
        for name in sys.argv[1:]:
            importlib.import_module(name)
            for slow in ("torch", "numpy"):
                assert slow not in sys.modules, f"{name} imports {slow}"
    """
    modules.append("mtkit.recipe.recipe")  # reads and checks recipes
    done = subprocess.run([sys.executable, "-c", program, *modules], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]


def kind_comparisons(module: ast.Module) -> Iterator[int]:
    """Lines where the name of a kind is compared: `x.kind == "linear"`, `x.kind in ("adam", "adamw")`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Compare):
            inside = [each for side in (node.left, *node.comparators) for each in ast.walk(side)]
            names_kind = any(isinstance(each, ast.Attribute) and each.attr == "kind" for each in inside)
            if names_kind and any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in inside):
                yield node.lineno


def test_kinds_are_known_by_their_capabilities() -> None:
    """A kind that somebody else adds has another name: its class variables say how it is to be treated."""
    faults = [f"{name(path)}:{line}" for path in FILES for line in kind_comparisons(tree(path))]
    assert faults == [], "ask for a capability of the configuration instead of comparing its kind"


def test_a_comparison_of_kinds_is_found() -> None:
    found = ['x.kind == "b"', '{x.kind, y.kind} == {"b"}', 'x.kind not in ("b", "c")']
    lines = [*found, "x.kind == y.kind", 'kind == "b"']
    assert list(kind_comparisons(ast.parse("\n".join(lines)))) == [1, 2, 3]
