"""JSON as bytes, and parsing of JSON that mtkit did not write, or that may be damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


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


def encode_json(text: str) -> bytes:
    """Encode JSON; a byte of a file name that is not UTF-8 (a lone surrogate in Python) becomes an escape of JSON."""
    return text.encode(errors="backslashreplace")
