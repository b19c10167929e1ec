"""Keeps oneDNN, which computes torch's matrix products in bf16 on a CPU, from remembering every shape it has seen.

oneDNN, and torch's bridge to it, each keep the last 1,024 kernels that they prepared, by shape. Batches of sentences
hardly ever have a shape again, so in training this only costs memory: some 15 MB an update at first, and as these
long-lived blocks lie among the large short-lived ones, the heap falls to pieces and grows by several times that.
Model T of the benchmarks, one thread, bf16: 1.4 GB after 12 updates, 2.1 GB after 40 and growing; with few kernels
1.15 GB from the eighth update on, at the same speed.
"""

from __future__ import annotations

import os

KERNELS = "64"  # about what one update needs, so that its layers still share them


VARIABLES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def bound_primitive_cache() -> None:
    """Have oneDNN keep few kernels; to be called before its first use, and later without effect.

    What the user has set in the environment stays.
    """
    for variable in VARIABLES:
        os.environ.setdefault(variable, KERNELS)
