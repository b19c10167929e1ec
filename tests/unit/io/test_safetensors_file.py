"""Mapped weights are those of the package safetensors; a header that does not fit its file is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mtkit.io.safetensors_file import map_tensors

TENSORS = {
    "float32": torch.randn(3, 4),
    "bf16": torch.randn(5).bfloat16(),
    "int8": torch.arange(-3, 4, dtype=torch.int8),
    "empty": torch.zeros(0, 2),
    "scalar": torch.tensor(2.5),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_file(TENSORS, tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors"


def test_arrays_have_the_bits_of_the_tensors(path: Path) -> None:
    header, arrays = map_tensors(path)
    assert {name: list(array.shape) for name, array in arrays.items()} == {
        name: list(tensor.shape) for name, tensor in TENSORS.items()
    }
    bits = TENSORS["bf16"].view(torch.int16).numpy().view(np.uint16)
    assert header["bf16"].dtype == "BF16"
    assert np.array_equal(arrays["bf16"], bits)
    for name in TENSORS.keys() - {"bf16"}:
        assert np.array_equal(arrays[name], TENSORS[name].numpy())


def test_writing_to_an_array_leaves_the_file_as_it_is(path: Path) -> None:
    before = path.read_bytes()
    map_tensors(path)[1]["float32"][:] = 0
    assert path.read_bytes() == before


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


def write(path: Path, header: Any, data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


CHANGES = {
    "begins before the file": lambda entry: entry.update(data_offsets=[-4, entry["data_offsets"][1]]),
    "ends after the file": lambda entry: entry.update(data_offsets=[entry["data_offsets"][0], 1 << 40]),
    "ends before it begins": lambda entry: entry.update(data_offsets=entry["data_offsets"][::-1]),
    "is larger than its bytes": lambda entry: entry.update(shape=[1 << 31, 1 << 31]),
    "has a negative size": lambda entry: entry.update(shape=[-3, -4]),
    "has a size that is no integer": lambda entry: entry.update(shape=[3.0, 4.0]),
    "has an unknown type": lambda entry: entry.update(dtype="F8_E9"),
    "has no type": lambda entry: entry.pop("dtype"),
    "has no offsets": lambda entry: entry.pop("data_offsets"),
    "has a text for a shape": lambda entry: entry.update(shape="3,4"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_entry_that_does_not_fit_is_refused(path: Path, change: Any) -> None:
    header, data = split(path.read_bytes())
    change(header["float32"])
    write(path, header, data)
    with pytest.raises(ValueError, match=r"float32|bytes|begin"):
        map_tensors(path)


def test_two_tensors_may_not_share_bytes(path: Path) -> None:
    header, data = split(path.read_bytes())
    header["copy"] = header["float32"]
    write(path, header, data)
    with pytest.raises(ValueError, match="does not begin where the tensor before it ends"):
        map_tensors(path)


def test_a_header_that_is_no_object_is_refused(path: Path) -> None:
    for header in (5, [], "x", None):
        write(path, header, b"")
        with pytest.raises(ValueError, match="no JSON object"):
            map_tensors(path)


def test_a_file_that_was_cut_or_changed_is_refused_or_reads_within_its_bytes(path: Path) -> None:
    """300 cuts and changed bytes of length and header: a ValueError, or arrays that can be read to their ends."""
    rng, content = random.Random(3), path.read_bytes()
    header_end = 8 + int.from_bytes(content[:8], "little")
    refused = 0
    for _ in range(300):
        changed = bytearray(content)
        if rng.random() < 0.3:
            del changed[rng.randrange(len(content)) :]
        else:
            for _ in range(rng.randint(1, 3)):
                changed[rng.randrange(header_end)] = rng.randrange(256)
        path.write_bytes(changed)
        try:
            arrays = map_tensors(path)[1]
        except ValueError:
            refused += 1
            continue
        for array in arrays.values():
            array.tobytes()
    assert refused > 200
