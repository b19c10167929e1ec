"""JSON as bytes, and parsing of JSON that mtkit did not write, or that may be damaged."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Never


def parse_json(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Parse JSON.

    Args:
        parse_constant: called with NaN, Infinity and -Infinity, which Python reads as numbers otherwise.

    Raises:
        ValueError: it is not JSON, not UTF-8, or nested so deeply that Python cannot read it.
    """
    try:
        return json.loads(text, parse_constant=parse_constant)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error


def reject_constant(constant: str) -> Never:
    """Refuse NaN, Infinity or -Infinity; ValueError."""
    raise ValueError(f"{constant} is not JSON")


def finite(value: Any) -> Any:
    """Replace numbers that are not finite, which JSON cannot represent, by None, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def encode_json(text: str) -> bytes:
    """Encode JSON; a byte of a file name that is not UTF-8 (a lone surrogate in Python) becomes an escape of JSON."""
    return text.encode(errors="backslashreplace")
