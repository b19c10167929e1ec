"""The structures and functions of the native library, as ctypes sees them."""

from __future__ import annotations

import ctypes

Pointer = ctypes.c_void_p


class Linear(ctypes.Structure):
    """A projection; see c/products.h."""

    _fields_ = (
        *((name, Pointer) for name in ("panels", "bias", "scale")),
        *((name, ctypes.c_int32) for name in ("inputs", "outputs", "type")),
    )


class Norm(ctypes.Structure):
    """A norm; see c/layers.h."""

    _fields_ = (("weight", Pointer), ("bias", Pointer), ("epsilon", ctypes.c_float), ("kind", ctypes.c_int32))


LINEARS = ("query_key_value", "out", "source_query", "source_key_value", "source_out", "inner", "outer")


class Layer(ctypes.Structure):
    """A layer of encoder or decoder; see c/layers.h."""

    _fields_ = (
        *((name, Linear) for name in LINEARS),
        *((name, Norm) for name in ("norm", "source_norm", "feed_forward_norm")),
        *((name, ctypes.c_int32) for name in ("heads", "source_heads", "activation", "is_pre_norm")),
    )


class StackStructure(ctypes.Structure):
    """The layers of encoder or decoder; see c/layers.h."""

    _fields_ = (
        ("layers", ctypes.POINTER(Layer)),
        ("final_norm", Norm),
        ("scale", ctypes.c_float),
        ("source_scale", ctypes.c_float),
        *((name, ctypes.c_int32) for name in ("num_layers", "d_model", "head_dim", "rotate_halves", "alignment_layer")),
    )


class KeysValues(ctypes.Structure):
    """Keys and values of a layer: a Cache or a Memory; see c/layers.h."""

    _fields_ = (("keys", Pointer), ("values", Pointer))


class StepArguments(ctypes.Structure):
    """Arguments of a decoder step; see Step in c/transformer.c."""

    _fields_ = (
        *((name, Pointer) for name in ("sentences", "slots", "lengths", "storage", "source_lengths", "offsets")),
        *((name, Pointer) for name in ("rotations", "attention")),
        *((name, ctypes.c_int32) for name in ("stride", "capacity", "first_position", "source_length")),
    )


class Pruned(ctypes.Structure):
    """An output projection that finds its largest output; see c/pruned.h."""

    _fields_ = (
        ("rounded", Linear),
        ("weight", Pointer),
        *((name, ctypes.c_float) for name in ("scale", "max_norm", "max_rounding_norm")),
    )


class Constraints(ctypes.Structure):
    """Constraints on the translations of a batch; see c/constraints.h."""

    _fields_ = (
        *((name, Pointer) for name in ("prefixes", "first_prefix", "token_bytes", "first_token_byte")),
        *((name, Pointer) for name in ("text_bytes", "first_text_byte", "forbidden_texts", "first_forbidden")),
        *((name, ctypes.c_int32) for name in ("vocab_size", "num_text_bytes", "no_repeat_ngram")),
        ("repetition_penalty", ctypes.c_float),
    )


class SamplingSettings(ctypes.Structure):
    """Settings of sampling; see c/sampling.h."""

    _fields_ = (
        ("sentence_ids", Pointer),
        *((name, ctypes.c_double) for name in ("temperature", "top_p", "epsilon")),
        ("seed", ctypes.c_int64),
        ("top_k", ctypes.c_int32),
    )


class Task(ctypes.Structure):
    """Arguments and results of a search; see Task in c/search.h."""

    _fields_ = (
        ("decoder", ctypes.POINTER(StackStructure)),
        ("output", ctypes.POINTER(Linear)),
        ("pruned", ctypes.POINTER(Pruned)),
        ("constraints", ctypes.POINTER(Constraints)),
        ("sampling", ctypes.POINTER(SamplingSettings)),
        *((name, Pointer) for name in ("embeddings", "positions", "rotations", "excluded")),
        *((name, Pointer) for name in ("divisors", "summands", "states", "first_states")),
        *((name, Pointer) for name in ("source_lengths", "max_lengths", "min_lengths")),
        *((name, Pointer) for name in ("tokens", "log_probs", "scores", "lengths", "is_finished", "counts")),
        *((name, Pointer) for name in ("attention", "first_attention", "alternatives", "alternative_log_probs")),
        *((name, ctypes.c_float) for name in ("embedding_scale", "enough_ends")),
        *((name, ctypes.c_int32) for name in ("num_excluded", "bos", "width", "n_best", "num_sentences")),
        *((name, ctypes.c_int32) for name in ("max_source_length", "max_length", "num_alternatives")),
        *((name, ctypes.c_int32) for name in ("attention_head", "is_single_path", "next_sentence")),
    )


# in the order of mtkit_sizeof in c/library.c
STRUCTURES: tuple[type[ctypes.Structure], ...] = (
    Linear,
    Norm,
    Layer,
    StackStructure,
    KeysValues,
    StepArguments,
    Constraints,
    SamplingSettings,
    Pruned,
    Task,
)


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """State the types of arguments and results of all functions, and compare the sizes of the structures.

    Raises:
        AttributeError: the library lacks a function.
        ValueError: a structure has another size.
    """
    pointer, integer, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    arguments = {
        "mtkit_lanes": [],
        "mtkit_has_type": [integer],
        "mtkit_sizeof": [integer],
        "mtkit_packed_elements": [integer, integer, integer],
        "mtkit_pack": [pointer, integer, integer, integer, pointer],
        "mtkit_project": [pointer, pointer, size, pointer],
        "mtkit_encode": [pointer, pointer, pointer, integer, pointer],
        "mtkit_most_probable": [pointer, pointer, integer, pointer, integer, pointer, pointer],
        "mtkit_search_begin": [pointer, integer],
        "mtkit_search_run": [pointer, integer],
        "mtkit_search_end": [pointer],
    }
    results = {
        "mtkit_sizeof": size,
        "mtkit_packed_elements": size,
        "mtkit_search_begin": pointer,
        "mtkit_search_end": None,
    }
    for name, types in arguments.items():
        function = getattr(library, name)
        function.argtypes = types
        function.restype = results.get(name, integer)
    for index, structure in enumerate(STRUCTURES):
        if library.mtkit_sizeof(index) != ctypes.sizeof(structure):
            raise ValueError(f"{structure.__name__} has another size in the native library")
    return library
