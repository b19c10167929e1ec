"""Start-up time: no heavy imports for --help, --version and usage errors."""

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
    # typer itself may parse the options of a command with pydantic
    heavy = (*HEAVY, "pydantic") if words in (["--help"], ["--version"]) else HEAVY
    assert [name for name in heavy if f"'{name}'" in loaded] == []


def test_importing_the_package_does_not_import_torch() -> None:
    assert python("import mtkit, sys; print('torch' in sys.modules, mtkit.__version__ != '')") == "False True\n"


def test_every_command_stands_in_the_help_on_one_line() -> None:
    lines = python("from mtkit.cli.entry import execute; execute(['--help'])").splitlines()
    listed = {line.split()[0]: line for line in lines if line.startswith("  ") and line[2:3].isalpha()}
    commands = python("from mtkit.cli.app import COMMANDS; print(*COMMANDS)").split()
    assert [name for name in commands if name not in listed or not listed[name].rstrip().endswith(".")] == []
