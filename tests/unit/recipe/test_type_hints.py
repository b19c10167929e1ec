"""Values of files against the types of their fields; pydantic is the reference."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.recipe.type_hints import misfit


@dataclass(frozen=True)
class Inner:
    """A mapping within."""

    size: int
    share: float = 0.0


@dataclass(frozen=True)
class Record:
    """Fields of a file."""

    name: str
    best: int | None
    inner: Inner | None = None
    hashes: dict[str, list[str]] = field(default_factory=dict)
    by_name: dict[str, Inner] = field(default_factory=dict)


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(-3, 3), st.sampled_from(["", "a"]))
NAMES = st.sampled_from(["name", "best", "inner", "hashes", "by_name", "size", "share", "other"])
VALUES = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner)))
INNER = st.dictionaries(st.sampled_from(["size", "share"]), SCALARS)
RECORDS = st.fixed_dictionaries(
    {"name": st.just("x"), "best": st.one_of(st.none(), st.integers(0, 2), SCALARS)},
    optional={
        "inner": st.one_of(INNER, VALUES),
        "hashes": st.one_of(st.dictionaries(NAMES, st.lists(st.sampled_from(["a", "b"]))), VALUES),
        "by_name": st.one_of(st.dictionaries(NAMES, INNER, max_size=2), VALUES),
    },
)


@pytest.mark.whole
@settings(max_examples=100)
@given(st.one_of(RECORDS, st.dictionaries(NAMES, VALUES)))
def test_a_value_fits_where_pydantic_takes_it(value: dict[str, object]) -> None:
    pydantic = pytest.importorskip("pydantic")
    try:
        pydantic.TypeAdapter(Record).validate_json(json.dumps(value), strict=True)
    except pydantic.ValidationError as error:
        places = {".".join(str(each) for each in found["loc"]) for found in error.errors()}
        place = misfit(value, Record)
        assert place is not None
        assert any(name == place or name.startswith(f"{place}.") or not place for name in places)
    else:
        assert misfit(value, Record) is None


def test_the_place_is_named() -> None:
    record = {"name": "x", "best": 1, "hashes": {"a": ["b", 3]}}
    assert misfit(record, Record) == "hashes.a.1"
    assert misfit({"name": "x"}, Record) == "best"
