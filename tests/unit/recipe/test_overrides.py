"""Merging of value trees, and overrides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mtkit.recipe.overrides import apply_overrides, merge
from mtkit.recipe.yaml_reader import LocatedValue, read_yaml

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
