"""Environments of other programs for the tests in this folder, outside of mtkit's own.

    python tests/interop/make_rooms.py FOLDER [ROOM ...]
    MTKIT_ROOMS=FOLDER pytest tests/interop

A room that is there already stays. Tests without their room are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Container
from pathlib import Path

import pytest

# name of a room -> packages of pip
PYTHON_ROOMS = {
    "clients": ["libretranslatepy", "libretranslate-aio", "transpolibre", "deepl", "openai"],
    "contract": ["schemathesis"],
    # without its dependencies, which bring torch and a sentence splitter under the AGPL
    "argos": [
        *("--no-deps", "argostranslate==1.11.0", "ctranslate2==4.8.5", "sentencepiece==0.2.3", "sacremoses==0.1.1"),
        *("packaging", "numpy", "pyyaml", "regex", "click", "joblib", "tqdm"),
    ],
}
# name of a room -> packages of npm
NODE_ROOMS = {"web": ["libretranslate", "deepl-node"], "browser": ["playwright-core", "axe-core"]}


def room(name: str) -> Path:
    """The folder of a room; the test is skipped if it is missing."""
    folder = Path(os.environ.get("MTKIT_ROOMS", "/nonexistent")) / name
    if not folder.is_dir():
        pytest.skip(f"no room {name}: python tests/interop/make_rooms.py FOLDER, then MTKIT_ROOMS=FOLDER")
    return folder


def make_rooms(root: Path, names: Container[str]) -> None:
    """Make the rooms of these names that are missing; needs the network."""
    for name, packages in PYTHON_ROOMS.items():
        if name in names and not (root / name).exists():
            venv.create(root / name, with_pip=True)
            subprocess.run([root / name / "bin" / "pip", "install", "-q", *packages], check=True)
    for name, packages in NODE_ROOMS.items():
        if name in names and shutil.which("npm") and not (root / name).exists():
            command = ["npm", "install", "--silent", "--fetch-retries=1", "--prefix", root / f"{name}.part", *packages]
            subprocess.run(command, check=True)
            (root / f"{name}.part").rename(root / name)


if __name__ == "__main__":
    make_rooms(Path(sys.argv[1]), sys.argv[2:] or [*PYTHON_ROOMS, *NODE_ROOMS])
