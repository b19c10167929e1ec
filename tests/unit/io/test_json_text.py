from __future__ import annotations

import json

import pytest

from mtkit.io.json_text import parse_json


def test_it_reads_what_json_reads():
    assert parse_json('{"a": [1, 2.5, null, "é"]}') == parse_json('{"a": [1, 2.5, null, "é"]}'.encode())
    assert parse_json("[1e5, true]") == json.loads("[1e5, true]")


@pytest.mark.parametrize("text", ["{", b"\xff", "[" * 100_000, '{"a":' * 100_000, "1" * 5000])
def test_whatever_cannot_be_read_is_a_value_error(text):
    with pytest.raises(ValueError):
        parse_json(text)


def test_constants_can_be_refused():
    def refuse(name: str) -> None:
        raise ValueError(name)

    with pytest.raises(ValueError, match="NaN"):
        parse_json("[NaN]", refuse)
