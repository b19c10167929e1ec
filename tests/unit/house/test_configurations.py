"""Configurations: they are read and checked without torch, whose import takes longer than all checks of a recipe."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.unit.house.source_code import FILES, ROOT, module_of


def defines_kinds(text: str) -> bool:
    """Whether a module defines the configuration of a kind."""
    return re.search(r"(?m)^    kind: Literal\[", text) is not None


def test_configurations_are_imported_without_torch() -> None:
    modules = [module_of(path) for path in FILES if defines_kinds(path.read_text())]
    assert len(modules) > 20
    program = """if True:
        import importlib, sys
        for name in sys.argv[1:]:
            importlib.import_module(name)
            assert "torch" not in sys.modules, f"{name} imports torch"
    """
    done = subprocess.run([sys.executable, "-c", program, *modules], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
