"""Randomness as a function: every micro-batch starts from a seed made of (seed, update, micro-batch).

So nothing of a generator need be saved, resuming and replaying are exact, and what a validation draws changes nothing.
"""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch


def derive(*numbers: int) -> int:
    """A seed of 63 bits that depends on all the numbers and on their order."""
    text = ",".join(str(number) for number in numbers)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def seed_everything(*numbers: int) -> None:
    """Seed Python's, NumPy's and torch's generators (CPU and every device) from the numbers."""
    seed = derive(*numbers)
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    torch.manual_seed(seed)
