"""The check that no weight of a model is NaN or infinite."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import DataError

SIGN, INFINITY = np.uint16(0x8000), 0x7F80  # bits of bfloat16; those of NaN without its sign are larger


def check_finite(weights: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Check the weights of a model, also as they are stored (see weights_file.py): two passes over their memory.

    Raises:
        DataError: a weight is NaN or infinite; the message names its file and the first tensor.
    """
    for name, array in weights.items():
        is_finite = True
        if array.size and array.dtype == np.uint16:  # the bits of bfloat16
            is_finite = (array & ~SIGN).max() < INFINITY
        elif array.size and np.issubdtype(array.dtype, np.floating):  # NaN is the least and the largest
            is_finite = bool(np.isfinite(array.min()) and np.isfinite(array.max()))
        if not is_finite:
            raise DataError(
                f"{path}: the tensor {name} contains NaN or infinity, so that the model cannot translate; its training "
                "failed, train it again or choose another model"
            )
