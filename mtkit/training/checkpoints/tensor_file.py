"""Tensor files in the safetensors format, written and hashed in one pass.

The library's writer copies every tensor and holds the interpreter's lock while it writes, which would block the
training loop until a checkpoint is written. This one streams from the tensors' memory. Reading uses the library.
https://huggingface.co/docs/safetensors: 8 bytes of header length, a JSON header, the bytes of the tensors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mtkit.errors import DataError
from mtkit.io.files import translate_read_errors

CHUNK = 1 << 22  # bytes written and hashed at a time
DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write tensors on the CPU to a new file, without flushing it to the disk, and return its SHA-256.

    Equal tensors with equal names give equal bytes.

    Raises:
        OSError: the file cannot be written.
    """
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))  # keeps them aligned
    header: dict[str, object] = {}
    end = 0
    for name, tensor in ordered:
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        header_bytes = memoryview(len(text).to_bytes(8, "little") + text)
        for content in (header_bytes, *(_memory(tensor) for _, tensor in ordered)):
            for begin in range(0, len(content), CHUNK):
                digest.update(content[begin : begin + CHUNK])
                file.write(content[begin : begin + CHUNK])
    return digest.hexdigest()


def _memory(tensor: Tensor) -> memoryview:
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")


def read_tensors(path: Path, *, leave_out: Collection[str] = ()) -> dict[str, Tensor]:
    """Read a tensor file into new memory, not a mapping of the file, except the tensors of these names.

    Raises:
        MissingInputError, ReadWriteError: there is no such file, or it cannot be read.
        DataError: it is not in the safetensors format.
    """
    with translate_read_errors(path):
        try:
            with safe_open(path, "pt") as file:
                names = [name for name in file.keys() if name not in leave_out]  # noqa: SIM118 (it is no mapping)
                return {name: file.get_tensor(name).clone() for name in names}
        except SafetensorError as error:
            raise DataError(f"{path}: not a readable safetensors file ({error})") from error
