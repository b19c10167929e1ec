"""Loading of the native library: the best one for the processor, and none that is not intact or not ours."""

from __future__ import annotations

import ctypes
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import hatch_build
from mtkit.hardware import cpu_flags
from mtkit.inference.prepare import NativeLinear, prepare_for_inference
from mtkit.native import library, sources
from mtkit.native.library import VARIABLE, native
from mtkit.search.config import SearchConfig
from tests.unit.inference.native_models import SMALL, assert_alike, build, fast, requests, settings, written_search

MACHINE_OFFSET = 18  # of e_machine in the header of an ELF file


@pytest.fixture(autouse=True)
def _fresh(monkeypatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    native.cache_clear()
    yield
    native.cache_clear()


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Path:
    """A copy of the folder of the compiled libraries."""
    if native().functions is None:
        pytest.skip(f"no native library: {native().reason}")
    native.cache_clear()
    shutil.copytree(sources.LIBRARIES, tmp_path / "compiled")
    monkeypatch.setattr(library, "LIBRARIES", tmp_path / "compiled")
    return tmp_path / "compiled"


def store(folder: Path, name: str, data: bytes) -> None:
    """Put bytes in the place of the library of an instruction set."""
    for path in folder.glob(f"{name}.*.so"):
        path.unlink()
    (folder / f"{name}.{sources.hash_of(data)}.so").write_bytes(data)


def best() -> str:
    return library.instruction_sets()[0]


def assert_no_library(reason: str) -> None:
    """There is no library for this reason, which is one sentence."""
    found = native()
    assert found.functions is None
    assert reason in found.reason
    assert "\n" not in found.reason
    assert not found.matches_layers


def assert_translation_works_without(reason: str) -> None:
    """There is no library for this reason, and a model is prepared for torch instead."""
    assert_no_library(reason)
    model = build()
    prepared = prepare_for_inference(model, torch.float32, torch.device("cpu"))
    assert not any(isinstance(module, NativeLinear) for module in prepared.modules())
    config = SearchConfig(beam_size=2)
    assert_alike(written_search(prepared, config, requests()), written_search(model, config, requests()))


def test_the_library_is_loaded_where_it_can_be_compiled() -> None:
    """If this fails, run `python hatch_build.py`."""
    if not (hatch_build.find_cc() or hatch_build.find_zig()):
        pytest.skip("no compiler")
    assert native().functions is not None, native().reason
    assert native().reason.startswith(f"{best()}, of ")
    assert native().matches_layers


def test_each_instruction_set_of_the_processor_agrees_with_the_model_as_written(folder, monkeypatch) -> None:
    model, search = build(), SearchConfig(beam_size=3)
    expected = written_search(model, search, requests())
    for name in library.instruction_sets():
        monkeypatch.setenv(VARIABLE, name)
        native.cache_clear()
        found = fast(SMALL, model).search(requests(), settings(search))
        assert native().reason.startswith(f"{name}, of ")
        assert_alike(found, expected)


@pytest.mark.usefixtures("folder")
def test_all_instruction_sets_give_the_same_integers(monkeypatch) -> None:
    """Sums of 8-bit products are exact, whatever the instructions."""
    generator = torch.Generator().manual_seed(1)
    layer, x = torch.nn.Linear(37, 70, bias=False), torch.randint(-127, 128, (9, 37), generator=generator).float()
    x[:, 0] = 127  # the scale of every row is 1
    with torch.no_grad():
        layer.weight.copy_(torch.randint(-127, 128, layer.weight.shape, generator=generator))
        layer.weight[:, 0] = 127
    for name in library.instruction_sets():
        monkeypatch.setenv(VARIABLE, name)
        native.cache_clear()
        assert torch.equal(NativeLinear(layer.weight, None, torch.int8)(x), (x @ layer.weight.T).detach())


@pytest.mark.usefixtures("folder")
def test_all_instruction_sets_that_the_library_knows_are_compiled() -> None:
    names = ctypes.create_string_buffer(library.MAX_NAMES)
    size = library._load("baseline").mtkit_instruction_sets(1, names, library.MAX_NAMES)
    assert size == len(names.value) < library.MAX_NAMES
    machine = hatch_build.find_cc().machine
    assert set(names.value.decode().split()) == set(hatch_build.SETS.get(machine, {"baseline": ()}))


@pytest.mark.usefixtures("folder")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/cpuinfo")
def test_the_processor_answers_as_the_system_does() -> None:
    """Not so under emulation, where the file lists the flags of the host."""
    avx512 = {"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"}
    needed = {
        "avx512-bf16": avx512 | {"avx512_vnni", "avx512_bf16"},
        "avx512-vnni": avx512 | {"avx512_vnni"},
        "avx512": avx512,
        "avx2-vnni": {"avx2", "fma", "avx_vnni"},
        "avx2": {"avx2", "fma"},
        "i8mm-bf16": {"i8mm", "bf16"},
        "baseline": set(),
    }
    assert library.instruction_sets() == [name for name, flags in needed.items() if flags <= cpu_flags()]


@pytest.mark.parametrize("damage", ["one byte", "truncated", "empty"])
def test_a_damaged_library_is_not_loaded(damage, folder) -> None:
    (path,) = folder.glob(f"{best()}.*.so")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes({"one byte": data, "truncated": data[: len(data) // 2], "empty": b""}[damage])
    assert_translation_works_without(f"{path} is damaged; run `python hatch_build.py` in the checkout")


def test_without_a_checkout_mtkit_is_installed_again(folder, monkeypatch) -> None:
    shutil.rmtree(folder)
    monkeypatch.setattr(library, "PACKAGE", folder / "mtkit")
    assert_no_library(f"no library for baseline in {folder}; install mtkit again")


def test_the_next_best_library_is_used_where_the_compiler_lacked_an_instruction_set(folder) -> None:
    available = library.instruction_sets()
    if len(available) == 1:
        pytest.skip("the processor has one instruction set")
    for path in folder.glob(f"{available[0]}.*.so"):
        path.unlink()
    assert native().reason.startswith(f"{available[1]}, of ")


def test_a_library_of_other_sources_is_not_used(folder, monkeypatch, tmp_path) -> None:
    changed = tmp_path / "c"
    shutil.copytree(sources.C_SOURCES, changed)
    monkeypatch.setattr(sources, "C_SOURCES", changed)
    (changed / "library.c").write_text("/* changed */\n")
    assert_no_library("was compiled from other C sources; run `python hatch_build.py`")
    assert str(folder) in native().reason


def test_a_library_for_another_processor_is_not_used(folder) -> None:
    (path,) = folder.glob("baseline.*.so")
    data = bytearray(path.read_bytes())
    if data[:4] != b"\x7fELF":
        pytest.skip("not an ELF file")
    data[MACHINE_OFFSET] ^= 1
    store(folder, "baseline", bytes(data))
    assert_no_library("; run `python hatch_build.py`")


def test_a_file_that_is_no_library_is_not_used(folder) -> None:
    store(folder, best(), b"nonsense")
    assert_no_library("; run `python hatch_build.py`")


def test_a_library_without_the_functions_is_not_used(folder, tmp_path) -> None:
    compiler = hatch_build.find_cc()
    if compiler is None:
        pytest.skip("no compiler")
    source, made = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(f'const char *mtkit_c_hash(void) {{ return "{sources.hash_of_c()}"; }}\n')
    compiler.run([*hatch_build.FLAGS, source, "-o", made], tmp_path)
    store(folder, best(), made.read_bytes())
    assert_no_library("mtkit_layers_hash")


def test_turned_off(monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    assert_translation_works_without("turned off by MTKIT_NATIVE=0")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("choice", ["avx1024", "../../elsewhere", "baseline*"])
def test_an_instruction_set_that_the_processor_lacks(choice, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, choice)
    assert_no_library(f"MTKIT_NATIVE={choice}: this processor has ")


@pytest.mark.usefixtures("folder")
def test_one_chooses_the_best(monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    assert native().reason.startswith(f"{best()}, of ")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("file", "layers", "searches"),
    [
        ("layers/softmax.py", False, True),
        ("search/beam.py", True, False),
        ("layers/recurrent/cells.py", True, True),  # the library has no recurrent layers
    ],
)
def test_changes_of_layers_and_searches_are_noticed(
    file: str, layers: bool, searches: bool, monkeypatch, tmp_path
) -> None:
    package = tmp_path / "package"
    for part in ("layers", "models/transformer", "search"):
        shutil.copytree(sources.PACKAGE / part, package / part)
    monkeypatch.setattr(sources, "PACKAGE", package)
    assert (native().matches_layers, native().matches_searches, native().shortcoming) == (True, True, None)
    with (package / file).open("a") as edited:
        edited.write("\n")
    native.cache_clear()
    assert native().functions is not None
    assert (native().matches_layers, native().matches_searches) == (layers, searches)
    assert (native().shortcoming is None) == searches


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("structure", [each for each in sources.SHARED_STRUCTURES if each != "Threads"])  # of two types
def test_two_exchanged_fields_are_refused(structure, monkeypatch) -> None:
    """Of equal type, so that all sizes stay as they are."""
    fields = sources.read_structures()
    own, seen = fields[structure], {}
    pair = next((i, j) for j, each in enumerate(own) if (i := seen.setdefault(each[:2], j)) != j)
    own[pair[0]], own[pair[1]] = own[pair[1]], own[pair[0]]
    monkeypatch.setattr(library, "STRUCTURES", library.define(fields))
    assert_no_library(f"{structure}.{own[pair[1]].name} has another place or size in the native library")


def test_functions_that_are_called_have_the_types_of_the_sources() -> None:
    """Two are written here a second time: the reader of the sources could skip a function or an argument."""
    functions = {function.name: (function, arguments) for function, arguments in sources.read_functions().items()}
    result, arguments = functions["mtkit_pack_pruned"]
    assert result == ("int", False, "mtkit_pack_pruned")
    assert [each[:2] for each in arguments] == [
        *(("Pruned", True), ("int", False), ("int", False), ("int32_t", True), ("float", True))
    ]
    assert functions["mtkit_layout"] == (("int32_t", True, "mtkit_layout"), [])
    folders = (sources.PACKAGE / name for name in ("native", "inference", "layers"))
    texts = [path.read_text() for folder in folders for path in folder.glob("*.py")]
    called = {name for text in texts for name in re.findall(r"mtkit_[a-z_]*[a-z]", text)}
    assert len(called) > 10
    assert called <= {*functions}


def test_the_constants_are_those_of_the_headers() -> None:
    """Written here a second time: the reader of enumerations could skip or misnumber one."""
    expected = {"CHUNK": 96, "FAILED": -1, "RMS_NORM": 2, "INT8": 2, "RELU": 1, "SILU": 4}
    assert expected.items() <= library.CONSTANTS.items()
