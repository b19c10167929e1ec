"""Compilation and loading of the native library, and machines where that is impossible."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from mtkit.inference.fused_decoder import FusedTransformer
from mtkit.inference.native import library
from mtkit.inference.native.library import VARIABLE, Native, native
from mtkit.inference.native.model import NativeTransformer
from mtkit.inference.prepare import prepare_for_inference
from tests.unit.inference.native.toy_models import build
from tests.unit.inference.test_fused_decoder import decode

ROOT = Path(__file__).parents[4]
PROGRAM = "from mtkit.inference.native.library import native; print(native().functions is not None, native().reason)"
MakeCompiler = Callable[[str], Path]


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch) -> Iterator[Path]:
    """An empty cache, and no settings of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in (VARIABLE, "CC", "CFLAGS"):
        monkeypatch.delenv(name, raising=False)
    native.cache_clear()
    yield tmp_path / "cache" / "mtkit"
    native.cache_clear()


@pytest.fixture
def compiler(tmp_path, monkeypatch) -> MakeCompiler:
    """Make a script the compiler; `$out` is the file that it has to write. Every call is a line of the file `calls`."""

    def make(script: str) -> Path:
        path, log = tmp_path / "compiler", tmp_path / "calls"
        log.touch()
        find_output = 'while [ "$1" != -o ]; do shift; done; out="$2"'
        path.write_text(f'#!/bin/sh\necho call >> "{log}"\n{find_output}\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))
        return log

    return make


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Path:
    """A library, compiled without optimisation, which takes a second."""
    folder = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setenv("CFLAGS", f"{os.environ.get('CFLAGS', '')} -O0")
        native.cache_clear()
        reason = native().reason
        native.cache_clear()
    libraries = list(folder.glob("mtkit/*"))
    if not libraries:
        pytest.skip(f"no native library: {reason}")
    return libraries[0]


def assert_translation_works_without(reason: str) -> None:
    """There is no library for this reason, and a model is prepared for torch instead."""
    found = native()
    assert found.functions is None
    assert reason in found.reason
    assert "\n" not in found.reason
    assert not found.supports(torch.float32)
    model = build()
    prepared = prepare_for_inference(model, torch.float32, torch.device("cpu"))
    assert type(prepared) is FusedTransformer
    torch.testing.assert_close(decode(prepared, steps=3), decode(model, steps=3), rtol=1e-4, atol=1e-5)


def test_the_library_is_compiled_once(cache_folder, compiled, compiler) -> None:
    calls = compiler(f'cp "{compiled}" "$out"')
    for _ in range(2):
        assert native().functions is not None
        assert native().reason.startswith("compiled by ")
        native.cache_clear()
    (path,) = cache_folder.iterdir()
    assert calls.read_text() == "call\n"
    assert path.read_bytes() == compiled.read_bytes()
    assert type(prepare_for_inference(build(), torch.float32, torch.device("cpu"))) is NativeTransformer


@pytest.mark.parametrize("damage", ["one byte", "truncated", "empty"])
def test_a_damaged_library_is_compiled_again(damage, cache_folder, compiled, compiler) -> None:
    calls = compiler(f'cp "{compiled}" "$out"')
    path = library._find_or_compile(os.environ["CC"])
    intact = bytearray(path.read_bytes())
    damaged = {"one byte": bytearray(intact), "truncated": intact[:-1], "empty": b""}[damage]
    if damage == "one byte":
        damaged[len(intact) // 2] ^= 1
    path.write_bytes(damaged)
    assert native().functions is not None
    assert calls.read_text() == "call\n" * 2
    assert [each.read_bytes() for each in cache_folder.iterdir()] == [intact]


def test_other_sources_options_and_compilers_have_their_own_library(
    cache_folder, compiled, compiler, monkeypatch
) -> None:
    calls = compiler(f'cp "{compiled}" "$out"')
    native()
    for name, value in (("CFLAGS", "-O1"), ("CFLAGS", "-O1 -g")):
        monkeypatch.setenv(name, value)
        native.cache_clear()
        native()
    monkeypatch.setattr(library, "cpu_flags", lambda: frozenset({"another", "processor"}))
    native.cache_clear()
    assert native().functions is not None
    assert calls.read_text() == "call\n" * 4
    assert len(list(cache_folder.iterdir())) == 4


def test_two_processes_compile_at_once(cache_folder, compiled, compiler) -> None:
    """The compiler writes the first half, waits for the other process, and goes on."""
    wait = 'for i in $(seq 300); do [ $(wc -l < "${0%/*}/calls") -ge 2 ] && break; sleep 0.1; done'
    calls = compiler(f'head -c 20000 "{compiled}" > "$out"; {wait}; cp "{compiled}" "$out"')
    command = [sys.executable, "-c", PROGRAM]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [output.split()[0] for output in outputs] == ["True", "True"]
    assert calls.read_text() == "call\n" * 2
    assert [each.read_bytes() for each in cache_folder.iterdir()] == [compiled.read_bytes()]


def test_turned_off(monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    assert_translation_works_without("turned off by MTKIT_NATIVE=0")


def test_no_compiler(monkeypatch) -> None:
    monkeypatch.setenv("CC", "nonexistent-cc")
    assert_translation_works_without("no C compiler (nonexistent-cc)")
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    native.cache_clear()
    assert_translation_works_without("no C compiler (cc, gcc, clang)")


FAILURES = {
    "an error": ("echo 'c/vectors.h:7: error: no such vector' >&2; echo more >&2; exit 1", "error: no such vector"),
    "no message": ("exit 1", "non-zero exit status 1"),
    "not UTF-8": (r"printf '\377\376 error' >&2; exit 1", " error"),
    "no library": ("exit 0", "No such file"),
    "not a library": ('echo nonsense > "$out"', "native-"),
    "killed": ("kill -9 $$", "SIGKILL"),
}


@pytest.mark.parametrize(("script", "reason"), FAILURES.values(), ids=FAILURES)
def test_a_compiler_that_fails(script, reason, compiler) -> None:
    compiler(script)
    assert_translation_works_without(reason)


def test_a_compiler_that_does_not_end(compiler, monkeypatch) -> None:
    monkeypatch.setattr(library, "SECONDS", 0.2)
    compiler("exec sleep 30")
    assert_translation_works_without("timed out after 0.2 seconds")


def test_a_library_without_the_functions(compiled, compiler, tmp_path) -> None:
    other = tmp_path / "other.so"
    (tmp_path / "other.c").write_text("int mtkit_lanes(void) { return 4; }\n")
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", str(other), str(tmp_path / "other.c")]
    subprocess.run(command, check=True)
    compiler(f'cp "{other}" "$out"')
    assert_translation_works_without("mtkit_has_type")


@pytest.mark.parametrize("is_file", ["cache", "cache/mtkit"])
def test_a_cache_that_cannot_be_written(is_file, tmp_path, compiler) -> None:
    calls = compiler("exit 1")
    path = tmp_path / is_file
    path.parent.mkdir(exist_ok=True)
    path.write_text("not a folder")
    assert_translation_works_without("mtkit")
    assert calls.read_text() == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to every folder")
def test_a_cache_without_permission(cache_folder, compiler) -> None:
    compiler("exit 1")
    cache_folder.mkdir(parents=True)
    cache_folder.chmod(0o500)
    assert_translation_works_without("Permission denied")
    cache_folder.chmod(0o700)


def test_no_home_folder(compiler, monkeypatch) -> None:
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    compiler("exit 1")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", fail)
    assert_translation_works_without("Could not determine home directory")


def test_options_that_cannot_be_read(compiler, monkeypatch) -> None:
    compiler("exit 1")
    monkeypatch.setenv("CFLAGS", "-DX='")
    assert_translation_works_without("No closing quotation")


def test_types_that_the_processor_lacks_are_not_supported(compiled, compiler) -> None:
    compiler(f'cp "{compiled}" "$out"')
    assert native().supports(torch.float32)
    assert not native().supports(torch.float16)
    assert not Native(None, "none").supports(torch.float32)
