"""Build hook: compiles the native library of a wheel, once for each instruction set.

`pip install` and `pip install -e` call it. `python hatch_build.py [SET...]` compiles into the checkout: all instruction
sets of this machine's architecture, or some. A C compiler that works is used (CC, else cc, gcc or clang, with the
options of CFLAGS), otherwise the package ziglang, which a build installs for itself. Where neither is there the wheel
has no library, and the reference implementation translates.

MTKIT_BUILD chooses: `cc` never asks for ziglang; `zig` always uses it, for glibc 2.28; `zig:MACHINE` compiles for
another machine (a key of ZIG_TARGETS); `none` compiles nothing.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # as a program, in an environment without hatchling
    BuildHookInterface = object

ROOT = Path(__file__).resolve().parent
VARIABLE = "MTKIT_BUILD"
ZIG = "ziglang>=0.13"
SECONDS = 900  # that a compilation may take
COMPILERS = ("cc", "gcc", "clang")
# A loop of products begins with a cache line: where it begins by chance, unrelated changes cost up to 5% of speed.
ALIGN_LOOPS = "-falign-loops=64"
FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC", "-pthread", "-fno-math-errno", "-fno-trapping-math", ALIGN_LOOPS)
PROBE = "#include <math.h>\n#include <pthread.h>\n#include <stdlib.h>\nfloat probe(float x) { return floorf(x); }\n"
AVX2 = ("avx2", "fma")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl")
# machine: instruction set: features of the compiler; c/library.c says which of them a processor has
SETS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "baseline": (),
        "avx2": AVX2,
        "avx2-vnni": (*AVX2, "avxvnni"),
        "avx512": AVX512,
        "avx512-vnni": (*AVX512, "avx512vnni"),
        "avx512-bf16": (*AVX512, "avx512vnni", "avx512bf16"),
    },
    "aarch64": {"baseline": (), "i8mm-bf16": ("i8mm", "bf16")},
}
ZIG_TARGETS = {  # machine: target of zig, platform of the wheel
    "x86_64": ("x86_64-linux-gnu.2.28", "manylinux_2_28_x86_64"),
    "aarch64": ("aarch64-linux-gnu.2.28", "manylinux_2_28_aarch64"),
    "aarch64-macos": ("aarch64-macos.12.0", "macosx_12_0_arm64"),
}
sources = SimpleNamespace(**runpy.run_path(str(next(ROOT.glob("mtkit/native/**/sources.py")))))


class Compiler(NamedTuple):  # not a dataclass: hatchling runs this file without making it a module
    """A compiler, and what it compiles for.

    Attributes:
        command: the program, with options that come first.
        machine: architecture.
        platform: of a wheel with its libraries.
        flags: options that come last, and override others.
        is_zig: features are given to zig, not to gcc or clang.
    """

    command: tuple[str, ...]
    machine: str
    platform: str
    flags: tuple[str, ...] = ()
    is_zig: bool = False

    def options(self, features: Sequence[str]) -> list[str]:
        """The options for an instruction set."""
        is_x86 = self.machine == "x86_64"
        options = ["-mprefer-vector-width=512"] if "avx512f" in features else []
        if self.is_zig:
            return [*options, "-s", "-mcpu=" + "+".join(["x86_64" if is_x86 else "generic", *features])]
        if is_x86 or not features:
            return [*options, *(f"-m{feature}" for feature in features)]
        return [*options, "-march=" + "+".join(["armv8.2-a", *features])]

    def run(self, arguments: Sequence[str | Path], folder: Path) -> None:
        """Compile, with temporary files in a folder.

        Raises:
            CompilationError: the compiler failed.
        """
        temporary = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR", "TMPDIR"), str(folder))
        try:
            subprocess.run(
                [*self.command, *arguments, *self.flags],
                check=True,
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                env={**os.environ, **temporary},
                timeout=SECONDS,
            )
        except subprocess.CalledProcessError as error:
            raise CompilationError(f"{self.command[0]}: {error.stderr.strip() or error}") from error
        except (OSError, subprocess.SubprocessError) as error:
            raise CompilationError(str(error)) from error


class CompilationError(Exception):
    """A compiler that failed."""


def sets_of(machine: str) -> dict[str, tuple[str, ...]]:
    """The instruction sets of an architecture, and their features."""
    return SETS.get(machine, {"baseline": ()})


def find_cc() -> Compiler | None:
    """The C compiler of this machine, if one compiles a small library; None if MTKIT_BUILD chooses otherwise."""
    if os.environ.get(VARIABLE, "cc") != "cc" or os.name != "posix":
        return None
    machine = {"arm64": "aarch64"}.get(platform.machine(), platform.machine())
    commands = [shlex.split(os.environ["CC"])] if os.environ.get("CC") else [[name] for name in COMPILERS]
    for command in commands:
        path = shutil.which(command[0])
        flags = tuple(shlex.split(os.environ.get("CFLAGS", "")))
        compiler = Compiler((path or command[0], *command[1:]), machine, own_platform(), flags)
        with tempfile.TemporaryDirectory() as folder, suppress(CompilationError):
            source = Path(folder) / "probe.c"
            source.write_text(PROBE)
            compiler.run([*FLAGS, source, "-lm", "-o", source.with_suffix(".so")], Path(folder))
            return compiler
    return None


def own_platform() -> str:
    """The newest platform of wheels that this machine takes: what is compiled here needs no newer C library."""
    try:
        from packaging.tags import platform_tags
    except ImportError:  # as a program, which makes no wheel
        return "any"
    return next(iter(platform_tags()))


def zig_machine() -> str | None:
    """The machine that zig compiles for; None: it is not to be used, or has no target for this machine."""
    chosen, _, machine = os.environ.get(VARIABLE, "zig").partition(":")
    machine = machine or (platform.machine() if sys.platform == "linux" else "")
    return machine if chosen == "zig" and machine in ZIG_TARGETS else None


def find_zig() -> Compiler | None:
    """The compiler of the package ziglang, if it is installed and may be used."""
    machine, package = zig_machine(), importlib.util.find_spec("ziglang")
    if machine is None or package is None or package.origin is None:
        return None
    target, tag = ZIG_TARGETS[machine]
    zig = str(Path(package.origin).with_name("zig"))
    return Compiler((zig, "cc", "-target", target), machine.partition("-")[0], tag, is_zig=True)


def compile_libraries(compiler: Compiler, folder: Path, names: Sequence[str] = ()) -> Iterator[Path | CompilationError]:
    """Compile the library for each instruction set, or some, into a folder.

    A file appears there complete, by renaming, and then replaces the older one of its instruction set.

    Yields:
        The file of each instruction set, or why there is none.
    """
    sets = sets_of(compiler.machine)
    hashes = {
        "C_HASH": sources.hash_of_c(),
        "LAYERS_HASH": sources.hash_of_layers(),
        "SEARCHES_HASH": sources.hash_of_searches(),
    }
    options = [*FLAGS, *(f'-D{name}="{value}"' for name, value in hashes.items())]
    options.append(f"-DLAYOUT={sources.layout_macro()}")
    files = sorted(sources.C_SOURCES.glob("*.c"))

    def compile_set(name: str) -> Path | CompilationError:
        output = work / f"{name}.so"
        try:
            compiler.run([*options, *compiler.options(sets[name]), *files, "-lm", "-o", output], work)
        except CompilationError as error:
            return error
        library = folder / f"{name}.{sources.hash_of(output.read_bytes())}.so"
        output.replace(library)
        for older in set(folder.glob(f"{name}.*.so")) - {library}:
            older.unlink()
        return library

    with exclusive(folder) as work, ThreadPoolExecutor(os.cpu_count()) as threads:
        yield from threads.map(compile_set, names or sets)


@contextmanager
def exclusive(folder: Path) -> Iterator[Path]:
    """Wait until no other build writes into a folder; give a folder inside for temporary files."""
    import fcntl  # not on Windows, where nothing is compiled

    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(folder / "work", ignore_errors=True)  # of a build that was killed
        (folder / "work").mkdir()
        try:
            yield folder / "work"
        finally:
            shutil.rmtree(folder / "work", ignore_errors=True)
    finally:
        os.close(lock)


class NativeLibraryHook(BuildHookInterface):
    """Compiles the library when a wheel is made, or an editable installation."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return ziglang where no C compiler works and zig has a target."""
        return [ZIG] if find_cc() is None and zig_machine() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the libraries to the wheel."""
        compiler = find_cc() or find_zig()
        if compiler is None:
            self.app.display_warning("mtkit: no C compiler and no ziglang; this wheel has no native library")
            return
        is_foreign = ":" in os.environ.get(VARIABLE, "")
        folder = Path(self.directory) / f"compiled-{compiler.platform}" if is_foreign else sources.LIBRARIES
        results = list(compile_libraries(compiler, folder))
        for error in [result for result in results if isinstance(result, CompilationError)]:
            self.app.display_warning(f"mtkit: the native library lacks an instruction set: {error}")
        libraries = [result for result in results if isinstance(result, Path)]
        if libraries and version != "editable":
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{compiler.platform}"
            place = sources.LIBRARIES.relative_to(ROOT).as_posix()
            build_data["force_include"] |= {str(library): f"{place}/{library.name}" for library in libraries}


def main() -> int:
    """Compile into the checkout."""
    compiler = find_cc() or find_zig()
    if compiler is None:
        print("no C compiler works here; install one, or `pip install ziglang`", file=sys.stderr)
        return 1
    sets, names = sets_of(compiler.machine), list(dict.fromkeys(sys.argv[1:]))
    if not set(names) <= set(sets):
        print(f"the instruction sets of {compiler.machine} are {', '.join(sets)}", file=sys.stderr)
        return 2
    results = list(compile_libraries(compiler, sources.LIBRARIES, names))
    for result in results:
        print(result, file=sys.stderr)
    return int(any(isinstance(result, CompilationError) for result in results))


if __name__ == "__main__":
    sys.exit(main())
