"""`training.deterministic`: sums that are the same in every run, on a GPU too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mtkit.errors import TrainingError

# without it cuBLAS may take another way each time, and torch refuses every product on a GPU
_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def determinism(*, is_wanted: bool) -> Iterator[None]:
    """A block in which torch refuses kernels whose sums depend on chance, if that is wanted.

    To be entered before the first product on a GPU; what the user has set in the environment stays.

    Raises:
        TrainingError: one of them was needed; says which.
    """
    if not is_wanted:
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
        raise TrainingError(f"training.deterministic: {kernel} on this device; set it to false") from error
    finally:
        torch.use_deterministic_algorithms(before)
