"""Tests for mtkit/bench/machine.py."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from mtkit.bench import machine
from mtkit.bench.machine import Machine, inspect_machine, machine_table
from mtkit.hardware import cpu_flags, cpu_name
from mtkit.layers import matmul
from mtkit.native.library import VARIABLE, Native

HEALTHY = Machine(
    versions={"mtkit": "1", "python": "3.11", "torch": "2.13.0+cpu", **dict.fromkeys(machine.EXTRAS, "1")},
    processor="AMD EPYC",
    instructions=["avx2"],
    cores=2,
    all_cores=2,
    threads=2,
    gpus=[],
    memory=8 << 30,
    disk=8 << 30,
    load=1.0,
    matmul="blas",
    native="avx2, of avx2 baseline",
    has_native=True,
    gflops={"float32 blas": 100.0},
)


@pytest.fixture(autouse=True)
def _no_driver_and_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(machine, "native", lambda: Native(None, "no library; install mtkit again"))
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)


def test_a_healthy_machine_has_no_problem():
    assert HEALTHY.problems() == []
    assert machine_table(HEALTHY).rows[-1] == ("problem", "none")
    assert ("cores", "2, 2 threads") in machine_table(HEALTHY).rows
    assert ("cores", "1, 1 thread") in machine_table(replace(HEALTHY, cores=1, threads=1)).rows


def test_the_load_is_that_of_the_machine_also_of_a_process_with_fewer_cores():
    pinned = replace(HEALTHY, cores=1, threads=1, all_cores=4, load=3.0)
    assert pinned.problems() == []
    (problem,) = replace(pinned, load=5.0).problems()
    assert "load 5.0 on the 4 cores" in problem


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"threads": 4}, "set OMP_NUM_THREADS=2"),
        ({"threads": 1}, "1 of 2 cores"),
        ({"load": 3.0}, "load 3.0 on the 2 cores of the machine: other programs compete"),
        ({"load": 3.0}, "; end them or wait"),
        ({"memory": 1 << 30}, "1.0 GiB of free memory"),
        ({"disk": 1 << 30}, "1.0 GiB of free disk"),
        (
            {"native": "no library; install mtkit again", "has_native": False},
            "native library is slower: no library; install mtkit again",
        ),
    ],
)
def test_each_problem_has_a_sentence_with_its_values(change, words):
    (problem,) = replace(HEALTHY, **change).problems()
    assert words in problem


def test_a_native_library_that_is_turned_off_is_no_problem(monkeypatch):
    monkeypatch.setenv(VARIABLE, "0")
    off = replace(HEALTHY, native="turned off by MTKIT_NATIVE=0", has_native=False)
    assert off.problems() == []
    assert any("native library: turned off by MTKIT_NATIVE=0" in state for _, state in machine_table(off).rows)


def test_a_driver_without_a_gpu_in_torch_is_a_problem(monkeypatch):
    monkeypatch.setattr(machine.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    assert "torch sees no GPU" in HEALTHY.problems()[0]
    assert replace(HEALTHY, gpus=["H100"]).problems() == []


def test_a_gpu_build_of_torch_without_a_gpu_is_a_problem_on_linux(monkeypatch):
    monkeypatch.setattr(machine.sys, "platform", "linux")
    (problem,) = replace(HEALTHY, versions={**HEALTHY.versions, "torch": "2.13.0+cu130"}).problems()
    assert "CPU build" in problem


def test_missing_packages_are_listed_with_the_command_that_installs_them():
    missing = {"matplotlib": None, "wandb": None}
    rows = machine_table(replace(HEALTHY, versions={**HEALTHY.versions, **missing})).rows
    assert ("optional", "matplotlib, wandb: pip install 'mtkit[plot,wandb]'") in rows


def test_the_package_of_each_extra_is_looked_for():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    always = {name for name in project["optional-dependencies"] if name not in ("dev", "zst")}
    assert set(machine.EXTRAS.values()) - {"zst"} == always


def test_this_machine_is_measured(monkeypatch):
    monkeypatch.setattr(machine, "SECONDS", 0.01)
    found = inspect_machine()
    assert found.gflops["float32 blas"] > 0.1
    assert found.matmul in matmul.LIBRARIES
    assert (found.native, found.has_native) == ("no library; install mtkit again", False)
    assert found.as_dict()["problems"] == found.problems()
    assert not inspect_machine(measure=False).gflops


def test_the_processor_is_read_from_cpuinfo(tmp_path: Path):
    path = tmp_path / "cpuinfo"
    path.write_text("processor : 0\nmodel name\t: Some CPU @ 3 GHz\nflags\t\t: fpu avx2\n")
    assert cpu_name(path) == "Some CPU @ 3 GHz"
    assert {"fpu", "avx2"} <= cpu_flags(path)
    assert cpu_flags(tmp_path / "none") == set()
    assert cpu_name(tmp_path / "none")
