"""`training.deterministic`: kernels with the same results in every run, on a GPU too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mtkit.errors import ComputeError

# without it cuBLAS may choose another algorithm in each run, and torch's deterministic mode refuses matrix products
_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def deterministic_algorithms(*, enabled: bool) -> Iterator[None]:
    """Make torch refuse nondeterministic kernels within the block, if enabled.

    Enter it before the first matrix product on a GPU. The user's environment variable takes precedence.

    Raises:
        ComputeError: an operation has no deterministic kernel; the message names it.
    """
    if not enabled:
        yield
        return
    os.environ.setdefault(*_WORKSPACE)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    except RuntimeError as error:
        if "use_deterministic_algorithms" not in str(error):
            raise
        kernel = str(error).partition(",")[0]
        raise ComputeError(f"training.deterministic: {kernel} on this device; set it to false") from error
    finally:
        torch.use_deterministic_algorithms(before)
