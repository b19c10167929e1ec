"""A new kind is one new file and one entry in a union.

Each test copies the package, adds kinds from tests/toy/new_kinds in exactly this way, and runs all stages, translation
and the commands that list or describe a recipe. A kind that had to be named anywhere else would fail here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toy.runs import write_all

PACKAGE = Path(__file__).parents[2] / "mtkit"
NEW_KINDS = Path(__file__).parents[1] / "toy" / "new_kinds"


def add(package: Path, file: str, *, config: str, union: str, after: str) -> None:
    """Copy a new kind to `file`, import its configuration where the union stands, and add it to the union."""
    shutil.copy(NEW_KINDS / Path(file).name, package / file)
    module = "mtkit." + file.removesuffix(".py").replace("/", ".")
    text = (package / union).read_text()
    assert text.count(f"| {after}") == 1, f"{union}: no entry {after}"
    text = text.replace(f"| {after}", f"| {after} | {config}")
    first_import = text.index("\nfrom mtkit.")
    (package / union).write_text(f"{text[:first_import]}\nfrom {module} import {config}{text[first_import:]}")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of mtkit, and a toy corpus in the test's folder."""
    shutil.copytree(PACKAGE, tmp_path / "source" / "mtkit", ignore=shutil.ignore_patterns("__pycache__"))
    write_all(tmp_path)
    return tmp_path / "source" / "mtkit"


def mtkit(package: Path, *words: str) -> str:
    """Run a command of the copied package; return its standard output."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", "mtkit", *words], cwd=package.parents[1], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_everywhere(package: Path, *overrides: str) -> None:
    """Run all stages of the toy recipe, resume it, translate, describe and list keys."""
    folder = package.parents[1]
    assert "parameters" in mtkit(package, "run", "toy.yaml", *overrides, "--dry-run")
    mtkit(package, "run", "toy.yaml", *overrides, "--run-dir", "run")
    report = json.loads((folder / "run" / "report.json").read_text())
    assert report["train"]["updates"] == 4
    mtkit(package, "run", "toy.yaml", *overrides, "--run-dir", "run")  # its saved recipe is read again
    lines = (folder / "test.en").read_text()
    (folder / "input").write_text(lines)
    assert mtkit(package, "translate", "run", "input").count("\n") == lines.count("\n")
    assert "parameters" in mtkit(package, "describe", "run")


def test_new_kinds_of_transformer_parts(package: Path) -> None:
    positions, attention = "layers/positions/__init__.py", "layers/attention/__init__.py"
    add(
        package,
        "layers/positions/scaled_alibi.py",
        config="ScaledALiBiConfig",
        union=positions,
        after="ALiBiConfig",
    )
    add(
        package,
        "layers/attention/uniform.py",
        config="UniformAttentionConfig",
        union=attention,
        after="SSRUConfig",
    )
    add(
        package,
        "training/optimisers/sign_sgd.py",
        config="SignSGDConfig",
        union="training/optimisers/__init__.py",
        after="LionConfig",
    )
    add(package, "search/plain_greedy.py", config="PlainGreedy", union="search/config.py", after="Sampling")
    model = (
        "{kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1, "
        "encoder_positions: {kind: scaled_alibi, start: 0.5}, decoder_attention: {kind: uniform}}"
    )
    run_everywhere(
        package, f"model={model}", "training.optimiser={kind: sign_sgd}", "search.method={kind: plain_greedy}"
    )
    assert "scaled_alibi" in mtkit(package, "keys", "model")


def test_a_new_model_family(package: Path) -> None:
    add(
        package,
        "models/bag_of_words.py",
        config="BagOfWordsConfig",
        union="models/__init__.py",
        after="AttentionRNNConfig",
    )
    run_everywhere(package, "model={kind: bag_of_words, d_model: 8}")
    assert "bag_of_words" in mtkit(package, "keys", "model")
