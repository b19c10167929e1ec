"""Lines of Python in the card of an exported model."""

from __future__ import annotations

import contextlib
import io
import os
import re
import warnings
from pathlib import Path


def run_card(folder: Path) -> str:
    """What the lines print, in the folder."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    before, printed = Path.cwd(), io.StringIO()
    os.chdir(folder)
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(printed):
            exec(code, {})
    finally:
        os.chdir(before)
    return printed.getvalue().strip()
