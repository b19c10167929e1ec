"""Limit of oneDNN's kernel cache, which grows with every new shape of a matrix product in bf16 on a CPU.

oneDNN and torch's interface to it each cache the last 1,024 kernels by shape. Batches of sentences rarely repeat a
shape, so that training only pays memory for the cache. Its long-lived blocks also fragment the heap between large
short-lived ones, which multiplies the growth. A small cache costs no speed (measured: see tests/benchmarks/NOTES.md).
"""

from __future__ import annotations

import os

CAPACITY = "64"  # kernels; about the number of one update, so that its layers still share them


VARIABLES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def limit_onednn_cache() -> None:
    """Limit the cache; call it before oneDNN's first use. The user's environment variables take precedence."""
    for variable in VARIABLES:
        os.environ.setdefault(variable, CAPACITY)
