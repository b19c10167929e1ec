"""Seeds as functions: the random numbers of a micro-batch depend on (seed, update, micro-batch) only.

Checkpoints therefore store no generator state, resuming is exact, and random numbers that a validation draws have no
effect on the training.
"""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch


def derive_seed(*numbers: int) -> int:
    """Return a 63-bit seed that depends on all numbers and their order."""
    text = ",".join(str(number) for number in numbers)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def seed_everything(*numbers: int) -> None:
    """Seed the generators of Python, NumPy and torch (CPU and all devices) from the numbers."""
    seed = derive_seed(*numbers)
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    torch.manual_seed(seed)
