"""Merging of value trees, and overrides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.recipe.located import LocatedValue
from mtkit.recipe.tree import apply_overrides, merge, nest_dotted_keys
from mtkit.recipe.yaml_reader import read_yaml

HERE = Path("/here")


def tree(text: str) -> LocatedValue:
    return read_yaml(text, "x.yaml", HERE, [])


def overridden(text: str, *overrides: str) -> Any:
    return apply_overrides(tree(text), overrides, HERE, []).to_plain()


def test_merging_keeps_other_keys() -> None:
    assert merge(tree("a: {b: 1, c: 2}\nd: [1, 2]"), tree("a: {c: 3}\nd: [4]")).to_plain() == {
        "a": {"b": 1, "c": 3},
        "d": [4],
    }


def test_another_kind_replaces_the_mapping() -> None:
    assert merge(tree("a: {kind: x, c: 2}"), tree("a: {kind: y}")).to_plain() == {"a": {"kind": "y"}}
    assert merge(tree("a: {kind: x, c: 2}"), tree("a: {kind: x}")).to_plain() == {"a": {"kind": "x", "c": 2}}


def test_overrides_reach_list_items_and_new_keys() -> None:
    assert overridden("a: [{b: 1}]", "a.0.b=2", "a.1.b=3", "c.d=[x]") == {"a": [{"b": 2}, {"b": 3}], "c": {"d": ["x"]}}


def test_kinds_are_overridden_first_in_any_order() -> None:
    assert overridden("a: {kind: x, c: 1}", "a.d=2", "a.kind=y") == {"a": {"kind": "y", "d": 2}}


def test_a_mapping_replaces_a_scalar() -> None:
    assert overridden("a: 1.0", "a.kind=x") == {"a": {"kind": "x"}}


def test_the_last_override_of_a_key_applies() -> None:
    assert overridden("a: 1", "a=2", "a=3") == {"a": 3}


def test_the_input_tree_is_not_modified() -> None:
    before = tree("a: {b: [1]}")
    apply_overrides(before, ["a.b.0=2", "a.c=1"], HERE, [])
    assert before.to_plain() == {"a": {"b": [1]}}


values = st.recursive(
    st.one_of(st.integers(-9, 9), st.sampled_from(["x", "no"])),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def located(value: Any) -> LocatedValue:
    items = {key: located(item) for key, item in value.items()} if isinstance(value, dict) else value
    return LocatedValue(items, tree("a: 1").origin)


def slow_merge(base: Any, top: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(top, dict)):
        return top
    keys = {*base, *top}
    return {k: slow_merge(base[k], top[k]) if k in base and k in top else {**base, **top}[k] for k in keys}


@given(base=values, top=values)
def test_merging_matches_a_simple_version(base: Any, top: Any) -> None:
    assert merge(located(base), located(top)).to_plain() == slow_merge(base, top)


names = st.sampled_from(["a", "b", "c", "d"])
partial_recipes = st.recursive(st.integers(0, 9), lambda inner: st.dictionaries(names, inner, min_size=1, max_size=3))


def dotted(value: Any, draw: Any) -> Any:
    """The same partial recipe, some of whose mappings are written with dotted keys."""
    if not isinstance(value, dict):
        return value
    result = {}
    for key, item in value.items():
        inner = dotted(item, draw)
        if isinstance(inner, dict) and draw(st.booleans()):
            result |= {f"{key}.{rest}": each for rest, each in inner.items()}
        else:
            result[key] = inner
    return result


@pytest.mark.whole
@settings(max_examples=300)
@given(st.dictionaries(names, partial_recipes, min_size=1), st.data())
def test_dotted_keys_are_nested(value: dict[str, Any], data: st.DataObject) -> None:
    errors: list[str] = []
    text = json.dumps(dotted(value, data.draw))
    assert nest_dotted_keys(tree(text), errors).to_plain() == value
    assert errors == []


def test_a_dotted_key_that_occurs_twice() -> None:
    errors: list[str] = []
    text = "a: {b: 1, c: 2}\na.d: 4\na.c: 3\n.x: 1\ncorpus: {test: {v1.2: {src: x}}}\nchosen: {a.b: because}"
    found = nest_dotted_keys(tree(text), errors).to_plain()
    assert found["a"] == {"b": 1, "c": 2, "d": 4}
    assert errors == ["x.yaml:3: c: duplicate key; first defined in x.yaml:1"]
    assert found.keys() == {"a", ".x", "corpus", "chosen"}
    assert found["corpus"] == {"test": {"v1.2": {"src": "x"}}}  # a name
    assert found["chosen"] == {"a.b": "because"}
