"""The structures and functions of the native library, as ctypes sees them."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_double, c_float, c_int, c_int32, c_int64, c_void_p


def fields(kind: type, names: str) -> list[tuple[str, type]]:
    """Fields of one type."""
    return [(name, kind) for name in names.split()]


class Linear(ctypes.Structure):
    """A projection; see c/products.h."""

    _fields_ = (*fields(c_void_p, "panels bias scale"), *fields(c_int32, "inputs outputs type"))


class Norm(ctypes.Structure):
    """A norm; see c/layers.h."""

    _fields_ = (*fields(c_void_p, "weight bias"), ("epsilon", c_float), ("kind", c_int32))


class Layer(ctypes.Structure):
    """A layer of encoder or decoder; see c/layers.h."""

    _fields_ = (
        *fields(Linear, "query_key_value out source_query source_key_value source_out inner outer"),
        *fields(Norm, "norm source_norm feed_forward_norm"),
        *fields(c_int32, "heads source_heads activation is_pre_norm"),
    )


class StackStructure(ctypes.Structure):
    """The layers of encoder or decoder; see c/layers.h."""

    _fields_ = (
        ("layers", POINTER(Layer)),
        *fields(Norm, "embedding_norm final_norm"),
        *fields(c_float, "scale source_scale"),
        *fields(c_int32, "num_layers d_model head_dim rotate_halves alignment_layer"),
    )


class Pruned(ctypes.Structure):
    """An output projection that finds its largest output; see c/ranking.h."""

    _fields_ = (
        ("rounded", Linear),
        *fields(c_void_p, "weight bias"),
        *fields(c_float, "scale max_norm max_rounding_norm max_bias"),
    )


class Constraints(ctypes.Structure):
    """Constraints on the translations of a batch; see c/constraints.h."""

    _fields_ = (
        *fields(c_void_p, "prefixes first_prefix token_bytes first_token_byte"),
        *fields(c_void_p, "text_bytes first_text_byte forbidden_texts first_forbidden"),
        *fields(c_int32, "vocab_size num_text_bytes num_free no_repeat_ngram"),
        ("repetition_penalty", c_float),
    )


class SamplingSettings(ctypes.Structure):
    """Settings of sampling; see Sampling in c/search.h."""

    _fields_ = (
        ("sentence_ids", c_void_p),
        *fields(c_double, "temperature top_p epsilon"),
        ("seed", c_int64),
        ("top_k", c_int32),
    )


class Task(ctypes.Structure):
    """Arguments and results of a search; see Task in c/search.h."""

    _fields_ = (
        ("decoder", POINTER(StackStructure)),
        ("output", POINTER(Linear)),
        ("pruned", POINTER(Pruned)),
        ("constraints", POINTER(Constraints)),
        ("sampling", POINTER(SamplingSettings)),
        *fields(c_void_p, "embeddings positions rotations excluded divisors summands states first_states"),
        *fields(c_void_p, "source_lengths max_lengths min_lengths"),
        *fields(c_void_p, "tokens log_probs scores lengths is_finished counts"),
        *fields(c_void_p, "attention first_attention alternatives alternative_log_probs"),
        *fields(c_float, "coverage_weight embedding_scale enough_ends"),
        *fields(c_int32, "num_excluded bos width n_best num_sentences max_source_length max_length num_alternatives"),
        *fields(c_int32, "with_log_probs is_single_path stops_early next_sentence"),
    )


# in the order of mtkit_sizeof in c/library.c
STRUCTURES = (Linear, Norm, Layer, StackStructure, Constraints, SamplingSettings, Pruned, Task)

# name: types of the result and of the arguments
FUNCTIONS = {
    "mtkit_sizeof": (c_int64, c_int),
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
    """State the types of arguments and results of all functions, and compare the sizes of the structures.

    Raises:
        AttributeError: the library lacks a function.
        ValueError: a structure has another size.
    """
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    for index, structure in enumerate(STRUCTURES):
        if library.mtkit_sizeof(index) != ctypes.sizeof(structure):
            raise ValueError(f"{structure.__name__} has another size in the native library")
    return library
