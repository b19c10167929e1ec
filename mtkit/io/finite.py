"""The check that no weight of a model is NaN or infinite."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import DataError


def check_finite(weights: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Check the weights of a model: two passes over their memory.

    Raises:
        DataError: a weight is NaN or infinite; the message names its file and the first tensor.
    """
    for name, array in weights.items():
        is_float = array.size and np.issubdtype(array.dtype, np.floating)
        if is_float and not (np.isfinite(array.min()) and np.isfinite(array.max())):  # NaN is the least and the largest
            raise DataError(
                f"{path}: the tensor {name} contains NaN or infinity, so that the model cannot translate; its training "
                "failed, train it again or choose another model"
            )
