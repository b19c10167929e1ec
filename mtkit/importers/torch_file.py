"""Tensors of a file that `torch.save` wrote, such as pytorch_model.bin, without running what is in it.

The file is a zip archive with a pickle and the bytes of each storage. Before torch 1.6 it was five pickles (a number,
the version of the format, sizes of numbers, the tensors, the keys of the storages) and the bytes after them. A pickle
is a program that may call any function of Python. Here its instructions are read by a list, and only those by which
torch describes tensors have a meaning: no name is ever imported, and nothing is called.
https://docs.python.org/3/library/pickletools.html
"""

from __future__ import annotations

import io
import itertools
import math
import pickletools
import struct
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.display import printable
from mtkit.errors import DataError
from mtkit.io.files import read_file, require_regular_file, translate_read_errors

# the storage classes of torch, and the numpy types of their bytes; bfloat16 as the bits
STORAGES: dict[str, type[np.generic]] = {
    "torch DoubleStorage": np.float64,
    "torch FloatStorage": np.float32,
    "torch HalfStorage": np.float16,
    "torch BFloat16Storage": np.uint16,
    "torch LongStorage": np.int64,
    "torch IntStorage": np.int32,
    "torch ShortStorage": np.int16,
    "torch CharStorage": np.int8,
    "torch ByteStorage": np.uint8,
    "torch BoolStorage": np.bool_,
}
DICTIONARY, TENSOR, PARAMETER = (
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
)
NAMES = {*STORAGES, DICTIONARY, TENSOR, PARAMETER}
MAX_PICKLE = 16 << 20  # bytes, far above the names of any model
MAX_INSTRUCTIONS = 1_000_000  # of its pickle; a tensor has some forty
MAX_SHARED = 4  # tensors of the size of a storage that may share it: input, output and source embeddings


# what reading a damaged archive or pickle can raise
_INVALID = (zipfile.BadZipFile, ValueError, LookupError, TypeError, AttributeError, EOFError, RuntimeError)


class ForbiddenPickleError(DataError):
    """A pickle that asks for something other than tensors."""


def read_torch_file(path: Path) -> dict[str, NDArray[Any]]:
    """Read the tensors of a file by name.

    Raises:
        MissingInputError, ReadWriteError: there is no such file, or it cannot be read.
        ForbiddenPickleError: its pickle asks for a function that no tensor needs.
        DataError: it is damaged, or another kind of file.
    """
    require_regular_file(path)
    with translate_read_errors(path):
        try:
            if not zipfile.is_zipfile(path):
                return _read_pickles(read_file(path), path)
            with zipfile.ZipFile(path) as archive:
                return _read_archive(archive, path)
        except (*_INVALID, struct.error) as error:
            raise DataError(
                f"{path}: damaged, cut off, or no file of torch ({printable(str(error), 200)}); copy it "
                "again, or save the model with save_pretrained, which writes model.safetensors"
            ) from error


_MAGIC = 0x1950A86A20F9469CFC6C  # the first number of a file of torch before 1.6
_PROTOCOL = 1001


def _read_pickles(content: bytes, path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a file of torch before 1.6."""
    stream, pickles = io.BytesIO(content), list[bytes]()
    for _ in range(5):
        start = stream.tell()
        for _ in itertools.islice(pickletools.genops(stream), MAX_INSTRUCTIONS):
            pass
        pickles.append(content[start : stream.tell()])
    storages: dict[str, NDArray[Any]] = {}

    def storage(key: str, dtype: type[np.generic], count: int) -> NDArray[Any]:
        """A storage that is filled afterwards: its type, without which the bytes have no places, stands here alone."""
        if count * np.dtype(dtype).itemsize + sum(each.nbytes for each in storages.values()) > len(content):
            raise ValueError(f"storage {key} is longer than the file")
        storages[key] = np.zeros(count, dtype=dtype)
        return storages[key]

    magic, protocol, system, value, keys = (_Reader(each, storage, path).run() for each in pickles)
    if magic != _MAGIC or protocol != _PROTOCOL or not system["little_endian"]:
        raise ValueError("not the header of such a file, or of a machine with another order of bytes")
    tensors, position = _checked(value, len(content)), stream.tell()
    for key in keys:
        (count,) = struct.unpack_from("<q", content, position)
        if count != storages[key].size:
            raise ValueError(f"storage {key} has {count} elements instead of {storages[key].size}")
        position += 8
        storages[key][:] = np.frombuffer(content, storages[key].dtype, count, position)
        position += storages[key].nbytes
    if unread := storages.keys() - set(keys):
        raise ValueError(f"storage {min(unread)} is not in the file")
    return tensors


def _checked(value: Any, size: int) -> dict[str, NDArray[Any]]:
    if not isinstance(value, dict) or not all(isinstance(each, np.ndarray) for each in value.values()):
        raise ValueError("not a table of tensors")
    if (total := sum(tensor.nbytes for tensor in value.values())) > MAX_SHARED * size:
        raise ValueError(f"{total:,} bytes of tensors would come out of it")
    return {str(name): tensor for name, tensor in value.items()}


def _read_archive(archive: zipfile.ZipFile, path: Path) -> dict[str, NDArray[Any]]:
    entries = {info.filename: info for info in archive.infolist()}
    (pickle,) = (name for name in entries if name.rpartition("/")[2] == "data.pkl")
    root = pickle.removesuffix("data.pkl")
    if entries[pickle].file_size > MAX_PICKLE or any(each.compress_type for each in entries.values()):
        raise ValueError("torch compresses nothing, and its description of tensors is short")
    size = path.stat().st_size
    if sum(each.file_size for each in archive.infolist()) > size:
        raise ValueError("its members are longer than the file together")

    def storage(key: str, dtype: type[np.generic], _: int) -> NDArray[Any]:
        return np.frombuffer(bytearray(archive.read(f"{root}data/{key}")), dtype=dtype)

    return _checked(_Reader(archive.read(pickle), storage, path).run(), size)


@dataclass(frozen=True)
class _Name:
    """A function or class that the pickle names."""

    name: str


class _Reader:
    """The stack machine of pickle, restricted to tables of tensors."""

    def __init__(
        self, pickle: bytes, storage: Callable[[str, type[np.generic], int], NDArray[Any]], path: Path
    ) -> None:
        self._pickle, self._storage, self._path = pickle, storage, path
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._storages: dict[str, NDArray[Any]] = {}

    def run(self) -> Any:
        """The value that the pickle describes.

        Raises:
            ForbiddenPickleError: it names something else.
            ValueError, LookupError, TypeError, AttributeError: it is not valid, or has an instruction that tensors do
                not need.
        """
        stack, memo = self._stack, dict[object, Any]()
        for opcode, argument, _ in itertools.islice(pickletools.genops(self._pickle), MAX_INSTRUCTIONS):
            name = opcode.name
            if name == "STOP":
                return stack.pop()
            if name in _CONSTANTS:
                stack.append(_CONSTANTS[name]())
            elif name in _LITERALS:
                stack.append(argument)
            elif name == "GLOBAL":
                if argument not in NAMES:
                    function_name = printable(str(argument).replace(" ", "."), 200)
                    raise ForbiddenPickleError(
                        f"{self._path}: its pickle would run {function_name}; nothing of it was run. Do not load it "
                        "with other programs; ask for model.safetensors"
                    )
                stack.append(_Name(argument))
            elif name == "MARK":
                self._marks.append(len(stack))
            elif name in ("BINPUT", "LONG_BINPUT"):
                memo[argument] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[argument])
            elif name in _TUPLES:
                count = _TUPLES[name]
                values = self._since_mark() if count is None else [stack.pop() for _ in range(count)][::-1]
                stack.append(tuple(values))
            elif name in ("SETITEM", "SETITEMS"):
                pairs = self._since_mark() if name == "SETITEMS" else [stack.pop(), stack.pop()][::-1]
                if not all(type(key) is str for key in pairs[::2]):  # the hash of deeply nested tuples ends Python
                    raise ValueError("a key that is no name")
                stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))
            elif name in ("APPEND", "APPENDS"):
                items = self._since_mark() if name == "APPENDS" else [stack.pop()]
                stack[-1].extend(items)
            elif name == "BINPERSID":
                stack.append(self._stored(stack.pop()))
            elif name == "REDUCE":
                arguments = stack.pop()
                function = stack.pop()
                stack.append(self._built(function, arguments))
            elif name == "BUILD":  # attributes of a table, such as the versions of torch's modules
                stack.pop()
            elif name not in ("PROTO", "FRAME"):
                raise ValueError(f"the instruction {name}, which tensors do not need")
        raise ValueError(f"no end in its first {MAX_INSTRUCTIONS:,} instructions")

    def _since_mark(self) -> list[Any]:
        mark = self._marks.pop()
        items = self._stack[mark:]
        del self._stack[mark:]
        return items

    def _stored(self, description: tuple[Any, ...]) -> NDArray[Any]:
        """The storage of a persistent id: ("storage", type, key, device, number of elements).

        Before torch 1.6 one more item describes a view, a part of another storage; it is None for a whole one.
        """
        kind, storage, key, _, count, *view = description
        if any(view) or type(count) is not int or count < 0:
            raise ValueError("no storage, or a part of one")
        if kind != "storage" or not isinstance(storage, _Name) or storage.name not in STORAGES or type(key) is not str:
            raise ValueError("no storage")
        if key not in self._storages:
            self._storages[key] = self._storage(key, STORAGES[storage.name], count)
        if self._storages[key].size < count:
            raise ValueError(f"storage {key} has fewer than {count} elements")
        return self._storages[key]

    def _built(self, function: _Name, arguments: Sequence[Any]) -> Any:
        if function.name == DICTIONARY and not arguments:
            return {}
        if function.name == PARAMETER:
            return arguments[0]
        if function.name != TENSOR:
            raise ValueError(f"a call of {function.name}")
        storage, offset, shape, stride = arguments[:4]
        numbers = (offset, *shape, *stride)
        last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        if not isinstance(storage, np.ndarray) or not all(type(each) is int and each >= 0 for each in numbers):
            raise ValueError("the shape of a tensor is not valid")
        if 0 in shape:
            return np.zeros(shape, dtype=storage.dtype)
        if last >= storage.size or math.prod(shape) > storage.size:
            raise ValueError("a tensor is larger than its storage")
        size = storage.itemsize
        return np.lib.stride_tricks.as_strided(storage[offset:], shape, [step * size for step in stride])


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "NONE": lambda: None,
}
_LITERALS = {"BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"}
_TUPLES = {"TUPLE": None, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}  # number of items; None: those since the mark
