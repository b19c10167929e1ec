"""What a user waits for before anything happens."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "sentencepiece", "sacrebleu", "yaml", "rich")


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["run", "--help"], ["translate", "--help"], ["trian"]])
def test_help_and_version_import_nothing_heavy(words: list[str]) -> None:
    code = f"import sys; from mtkit.cli.entry import execute; execute({words!r}); print(sorted(sys.modules))"
    loaded = python(code).rstrip("\n").rpartition("\n")[2]
    # typer itself may read a command's options by pydantic
    heavy = (*HEAVY, "pydantic") if words in (["--help"], ["--version"]) else HEAVY
    assert [name for name in heavy if f"'{name}'" in loaded] == []


def test_importing_the_package_does_not_import_torch() -> None:
    assert python("import mtkit, sys; print('torch' in sys.modules, mtkit.__version__ != '')") == "False True\n"
