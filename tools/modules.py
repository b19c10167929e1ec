"""Modules of the package, one line each, from the first lines of their docstrings: python tools/modules.py [FOLDER]"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "mtkit"


def main(folder: str = "") -> None:
    """Print the modules of a folder of the package, or of all folders."""
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        name = path.parent if path.name == "__init__.py" else path
        print(f"{name.relative_to(PACKAGE.parent)!s:48}{docstring.partition(chr(10))[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
