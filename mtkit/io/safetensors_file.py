"""Tensors of a file in the safetensors format as numpy arrays, without torch and without a copy.

The numpy reader of the package safetensors copies each tensor and refuses bfloat16, which numpy lacks; its other
readers need torch. Here arrays are views of the mapped file, and bfloat16 has the type uint16, with the same bits.
https://huggingface.co/docs/safetensors: 8 bytes of header length, a JSON header, the bytes of the tensors. A file may
come from anybody: each number of the header is checked before memory is read.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.display import printable
from mtkit.io.files import require_regular_file, translate_read_errors
from mtkit.io.json_text import parse_json

Arrays = Mapping[str, NDArray[Any]]

DTYPES: dict[str, type[np.generic]] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
LENGTH_BYTES = 8
MAX_HEADER = 100_000_000  # bytes, as the package safetensors allows


class StoredTensor(NamedTuple):
    """A tensor as the header describes it."""

    dtype: str  # a key of DTYPES
    shape: tuple[int, ...]
    begin: int  # byte after the header
    end: int


def map_tensors(path: Path) -> tuple[dict[str, StoredTensor], dict[str, NDArray[Any]]]:
    """Map a file; the arrays may be written to, which does not change the file.

    Returns:
        Header entries and arrays, by name.

    Raises:
        MissingInputError, ReadWriteError: there is no such file, or it cannot be read.
        ValueError: it is not in the format; the message says where.
    """
    require_regular_file(path)
    with translate_read_errors(path):
        if path.stat().st_size < LENGTH_BYTES:
            raise ValueError("shorter than its header")
        content = np.memmap(path, dtype=np.uint8, mode="c")
    length = int.from_bytes(content[:LENGTH_BYTES].tobytes(), "little")
    start = LENGTH_BYTES + length
    if length > MAX_HEADER or start > content.size:
        raise ValueError("shorter than its header")
    header = _read_header(content[LENGTH_BYTES:start].tobytes(), content.size - start)
    arrays = {}
    for name, entry in header.items():
        array = np.frombuffer(content[start:][entry.begin : entry.end], dtype=DTYPES[entry.dtype]).reshape(entry.shape)
        arrays[name] = array if array.flags.aligned else array.copy()
    return header, arrays


def unmap(arrays: Arrays) -> None:
    """Give the memory of mapped arrays that were not written to back to the system, which reads them again."""
    base: Any = next(iter(arrays.values()), None)  # all are of one file
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap):
        base.madvise(mmap.MADV_DONTNEED)


def _read_header(text: bytes, size: int) -> dict[str, StoredTensor]:
    """Check the entries of a header; together they must cover the `size` bytes after it, each byte once."""
    fields = parse_json(text)
    if not isinstance(fields, dict):
        raise ValueError("its header is no JSON object")
    header: dict[str, StoredTensor] = {}
    for name, value in fields.items():
        if name == "__metadata__":
            continue
        entry = value if isinstance(value, dict) else {}
        dtype, shape, offsets = (entry.get(key, ()) for key in ("dtype", "shape", "data_offsets"))
        if isinstance(dtype, str) and dtype not in DTYPES:
            raise ValueError(f"{name} is of type {printable(dtype, 20)}, which is not read; save it as F32 or BF16")
        is_valid = isinstance(dtype, str) and dtype in DTYPES and _are_sizes(shape) and _are_sizes(offsets)
        if not is_valid or len(offsets) != 2:
            raise ValueError(f"the header of {name} is not valid")
        begin, end = offsets
        if end - begin != math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize:
            raise ValueError(f"{name} has {end - begin} bytes, which do not fit its shape")
        header[name] = StoredTensor(dtype, tuple(shape), begin, end)
    position = 0
    for name, stored in sorted(header.items(), key=lambda item: (item[1].begin, item[1].end)):
        if stored.begin != position:
            raise ValueError(f"{name} does not begin where the tensor before it ends")
        position = stored.end
    if position != size:
        raise ValueError(f"its tensors have {position} bytes, the file {size}")
    return header


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)
