"""The structures, constants and functions of the native library, as ctypes sees them.

Structures and constants are read from the C headers. `declare` compares the place of each field with that in the
library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_double, c_float, c_int, c_int32, c_int64, c_void_p
from typing import Any

from mtkit.inference.sources import Field, read_constants, read_structures

CONSTANTS: Mapping[str, int] = read_constants()
_TYPES: dict[str, Any] = {"int32_t": c_int32, "int64_t": c_int64, "float": c_float, "double": c_double}


def define(structures: Mapping[str, list[Field]]) -> dict[str, type[ctypes.Structure]]:
    """The classes of structures, each of which may contain and point to those before it."""
    defined: dict[str, type[ctypes.Structure]] = {}
    for name, fields in structures.items():
        types = [_type(field, defined) for field in fields]
        layout = [(field.name, each) for field, each in zip(fields, types, strict=True)]
        defined[name] = type(name, (ctypes.Structure,), {"_fields_": layout})
    return defined


def _type(field: Field, defined: Mapping[str, type[ctypes.Structure]]) -> Any:
    if not field.is_pointer:
        return defined.get(field.type) or _TYPES[field.type]
    return POINTER(defined[field.type]) if field.type in defined else c_void_p


def field_names(structure: type[ctypes.Structure]) -> list[str]:
    """The names of the fields of a structure, in their order."""
    return [each[0] for each in structure._fields_]


STRUCTURES = define(read_structures())
Linear, Pruned, Norm, Layer, StackStructure, Constraints, SamplingSettings, Task = STRUCTURES.values()

# name: types of the result and of the arguments
FUNCTIONS = {
    "mtkit_layout": (POINTER(c_int32),),
    "mtkit_packed_elements": (c_int64, c_int, c_int, c_int),
    "mtkit_pack": (c_int, c_void_p, c_void_p, c_int, c_int, c_void_p, c_void_p),
    "mtkit_pack_pruned": (c_int, c_void_p, c_int, c_int, c_void_p, c_void_p),
    "mtkit_project": (c_int, c_void_p, c_void_p, c_int64, c_void_p),
    "mtkit_encode": (c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p),
    "mtkit_most_probable": (c_int, c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_void_p),
    "mtkit_search_begin": (c_void_p, c_void_p, c_int),
    "mtkit_search_run": (c_int, c_void_p, c_int),
    "mtkit_search_end": (None, c_void_p),
}


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """State the types of arguments and results of all functions, and compare the layout of the structures.

    Raises:
        AttributeError: the library lacks a function.
        ValueError: a field of a structure has another place or size.
    """
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    layout, index = library.mtkit_layout(), 0
    for name, fields in read_structures().items():
        for each in fields:
            field: Any = getattr(STRUCTURES[name], each.name)
            if (layout[index], layout[index + 1]) != (field.offset, field.size):
                raise ValueError(f"{name}.{each.name} has another place or size in the native library")
            index += 2
        if layout[index] != ctypes.sizeof(STRUCTURES[name]):
            raise ValueError(f"{name} has another size in the native library")
        index += 1
    return library
