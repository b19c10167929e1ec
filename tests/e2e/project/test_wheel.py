"""A wheel that is built from the source distribution brings the native library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import hatch_build

ROOT = Path(__file__).parents[3]
PROGRAM = """
import mtkit
from mtkit.native.library import native
print(mtkit.__file__, native().functions is not None, native().reason)
"""


def build(kind: str, project: Path, output: Path, **environment: str) -> Path:
    """Build a distribution with the packages of this environment; return its only file."""
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", output, project]
    clean = {name: value for name, value in os.environ.items() if name not in (hatch_build.VARIABLE, "CC", "CFLAGS")}
    done = subprocess.run(command, capture_output=True, text=True, env={**clean, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = output.iterdir()
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """The unpacked source distribution."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build("sdist", ROOT, folder / "dist")) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
        archive.extractall(folder)
    (unpacked,) = folder.glob("mtkit-*")
    return unpacked


@pytest.mark.whole
def test_the_source_distribution_has_what_compiles_and_nothing_compiled(project) -> None:
    assert (project / "hatch_build.py").is_file()
    sources = {path.relative_to(ROOT) for path in ROOT.glob("mtkit/native/**/*.[ch]")}
    assert sources
    assert {path.relative_to(project) for path in project.glob("mtkit/native/**/*.[ch]")} == sources
    assert not list(project.rglob("*.so"))


@pytest.mark.whole
def test_a_wheel_brings_the_library_of_each_instruction_set(project, tmp_path) -> None:
    compiler = hatch_build.find_cc()
    if compiler is None:
        pytest.skip("no C compiler")
    path = build("wheel", project, tmp_path / "dist", CFLAGS="-O0")
    assert path.name.endswith(f"-py3-none-{compiler.platform}.whl")
    with zipfile.ZipFile(path) as wheel:
        names = [Path(name).name.partition(".")[0] for name in wheel.namelist() if name.endswith(".so")]
        assert sorted(names) == sorted(hatch_build.sets_of(compiler.machine))
        assert not [name for name in wheel.namelist() if "hatch_build" in name or name.endswith("/work")]
        wheel.extractall(tmp_path / "site")
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path / "site", capture_output=True, text=True, check=True)
    package, is_loaded, reason = done.stdout.split(maxsplit=2)
    assert Path(package).is_relative_to(tmp_path / "site")
    assert is_loaded == "True", reason


@pytest.mark.whole
def test_a_wheel_without_the_library_is_for_every_machine(project, tmp_path) -> None:
    path = build("wheel", project, tmp_path / "dist", MTKIT_BUILD="none")
    assert path.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(path) as wheel:
        assert not [name for name in wheel.namelist() if name.endswith(".so")]


DRY_RUNS = """
import sys
from mtkit.pipeline import estimate
from mtkit.cli import entry
estimate.measure_cost = lambda *arguments: estimate.MicroBatchCost(1.0, 1.0, 1.0)
for name in sys.argv[1:]:
    print(name, entry.execute(["run", name, "--dry-run"]), file=sys.stderr)
"""
RECIPES = sorted(ROOT.glob("recipes/*.yaml"))
NEED_RUNS = [path for path in RECIPES if re.search(r"^[^#\n]*\.\./runs", path.read_text(), re.MULTILINE)]


@pytest.mark.whole
@pytest.mark.parametrize("recipes", [NEED_RUNS, pytest.param(RECIPES, marks=pytest.mark.slow)], ids=["of runs", "all"])
def test_each_recipe_of_an_installation_has_a_dry_run(project: Path, tmp_path: Path, recipes: list[Path]) -> None:
    """In a folder without corpora, and without the runs that some recipes build on."""
    path = build("wheel", project, tmp_path / "dist", MTKIT_BUILD="none")
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(tmp_path / "site")
    names = [path.stem for path in recipes]
    assert len(names) > 3
    done = subprocess.run(
        [sys.executable, "-c", DRY_RUNS, *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )
    ended = [line for line in done.stderr.split("\n") if line.partition(" ")[0] in names]
    assert ended == [f"{name} 0" for name in names], done.stderr
    assert "training.objective.teacher: " in done.stdout
    assert "tokenizer.model: " in done.stdout
    assert done.stdout.count("time of training: ") == len(names)
