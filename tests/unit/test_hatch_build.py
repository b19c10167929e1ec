"""The build hook: which compiler it takes, and files that appear whole."""

from __future__ import annotations

import ctypes
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import hatch_build
from hatch_build import VARIABLE, NativeLibraryHook, compile_libraries, find_cc, find_zig, zig_machine
from mtkit.native import sources


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch) -> None:
    for name in (VARIABLE, "CC", "CFLAGS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def compiler(monkeypatch) -> hatch_build.Compiler:
    """The compiler of this machine, quick."""
    monkeypatch.setenv("CFLAGS", "-O0")
    found = find_cc()
    if found is None:
        pytest.skip("no C compiler")
    return found


def script(folder: Path, text: str) -> Path:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def hook() -> NativeLibraryHook:
    return NativeLibraryHook.__new__(NativeLibraryHook)  # the hook of hatchling wants a project


def test_a_compiler_is_a_program_with_options(monkeypatch) -> None:
    path = shutil.which("cc")
    if path is None:
        pytest.skip("no C compiler")
    monkeypatch.setenv("CC", "cc -m64 -g")
    monkeypatch.setenv("CFLAGS", "-O1 '-DX=a b'")
    assert find_cc().command == (path, "-m64", "-g")
    assert find_cc().flags == ("-O1", "-DX=a b")
    assert hook().dependencies() == []


@pytest.mark.parametrize("text", ["exit 1", "exit 0; nothing", "kill -9 $$", "echo '#error' >&2; false"])
def test_ziglang_is_asked_for_where_no_compiler_works(text, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(hatch_build.sys, "platform", "linux")
    monkeypatch.setattr(hatch_build.platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("CC", str(script(tmp_path, text)))
    if text != "exit 0; nothing":
        assert find_cc() is None
        assert hook().dependencies() == [hatch_build.ZIG]
    monkeypatch.setenv("CC", str(tmp_path / "nonexistent"))
    assert find_cc() is None
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_cc() is None
    assert hook().dependencies() == [hatch_build.ZIG]
    monkeypatch.setattr(hatch_build.platform, "machine", lambda: "riscv64")
    assert hook().dependencies() == []


@pytest.mark.parametrize(
    ("choice", "uses_cc", "machine"),
    [("cc", True, None), ("none", False, None), ("zig", False, "x86_64"), ("zig:aarch64", False, "aarch64")],
)
def test_the_variable_chooses(choice, uses_cc, machine, monkeypatch, compiler) -> None:
    monkeypatch.setattr(hatch_build.sys, "platform", "linux")
    monkeypatch.setattr(hatch_build.platform, "machine", lambda: "x86_64")
    monkeypatch.setenv(VARIABLE, choice)
    assert (find_cc() is not None) == uses_cc
    assert zig_machine() == machine
    assert hook().dependencies() == ([hatch_build.ZIG] if machine else [])
    if machine is None:
        assert find_zig() is None
    monkeypatch.setenv("PATH", "")
    assert hook().dependencies() == ([hatch_build.ZIG] if machine else [])


def test_options_of_an_instruction_set() -> None:
    features = hatch_build.SETS["aarch64"]["i8mm-bf16"]
    cc = hatch_build.Compiler(("cc",), "aarch64", "any")
    zig = hatch_build.Compiler(("zig", "cc"), "aarch64", "any", is_zig=True)
    assert cc.options(features) == ["-march=armv8.2-a+i8mm+bf16"]
    assert zig.options(features) == ["-s", "-mcpu=generic+i8mm+bf16"]
    cc = hatch_build.Compiler(("cc",), "x86_64", "any")
    assert cc.options(hatch_build.SETS["x86_64"]["avx2"]) == ["-mavx2", "-mfma"]
    assert cc.options(()) == []


@pytest.mark.whole
def test_two_builds_at_once_after_one_that_was_killed(tmp_path, compiler) -> None:
    """One waits for the other; the library of older sources goes, and those of other instruction sets stay."""
    folder = tmp_path / "compiled"
    (folder / "work").mkdir(parents=True)
    (folder / "work" / "baseline.so").write_bytes(b"half")
    (folder / "baseline.0123456789abcdef.so").write_bytes(b"older")
    (folder / "avx2.0123456789abcdef.so").write_bytes(b"another")
    with ThreadPoolExecutor(2) as threads:
        builds = [threads.submit(lambda: list(compile_libraries(compiler, folder, ["baseline"]))) for _ in range(2)]
    assert builds[0].result() == builds[1].result()
    (path,) = builds[0].result()
    assert path.name == f"baseline.{sources.hash_of(path.read_bytes())}.so"
    assert set(folder.iterdir()) == {path, folder / "avx2.0123456789abcdef.so"}
    library = ctypes.CDLL(str(path))
    for part in ("c", "layers", "searches"):
        function = getattr(library, f"mtkit_{part}_hash")
        function.restype = ctypes.c_char_p
        assert function().decode() == getattr(sources, f"hash_of_{part}")()


@pytest.mark.whole
def test_an_instruction_set_that_the_compiler_lacks(tmp_path, compiler) -> None:
    """The others are compiled."""
    first, *others = hatch_build.sets_of(compiler.machine)
    if not others:
        pytest.skip("one instruction set")
    option = compiler.options(hatch_build.SETS[compiler.machine][others[0]])[0]
    lacks = f'case "$*" in *{option}*) echo "unknown option" >&2; exit 1; esac; exec {compiler.command[0]} "$@"'
    limited = compiler._replace(command=(str(script(tmp_path, lacks)),))
    library, error = compile_libraries(limited, tmp_path / "compiled", [first, others[0]])
    assert isinstance(error, hatch_build.CompilationError)
    assert "unknown option" in str(error)
    assert list((tmp_path / "compiled").iterdir()) == [library]


@pytest.mark.whole
def test_the_program_compiles_into_the_checkout(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(hatch_build.sys, "argv", ["hatch_build.py", "nonsense"])
    monkeypatch.setenv("CFLAGS", "-O0")
    if find_cc() is None:
        pytest.skip("no C compiler")
    assert hatch_build.main() == 2
    assert "baseline" in capsys.readouterr().err
    monkeypatch.setattr(hatch_build.sys, "argv", ["hatch_build.py", "baseline", "baseline"])
    monkeypatch.setattr(hatch_build.sources, "LIBRARIES", tmp_path / "compiled")
    assert hatch_build.main() == 0
    (path,) = (tmp_path / "compiled").iterdir()
    assert capsys.readouterr().err == f"{path}\n"
    monkeypatch.setenv(VARIABLE, "none")
    assert hatch_build.main() == 1
    assert "pip install ziglang" in capsys.readouterr().err
