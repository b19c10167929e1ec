"""Trees of stated values, merged and overridden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mtkit.recipe.overrides import apply_overrides, merge
from mtkit.recipe.yaml_reader import Stated, read_yaml

HERE = Path("/here")


def tree(text: str) -> Stated:
    return read_yaml(text, "x.yaml", HERE, [])


def overridden(text: str, *overrides: str) -> Any:
    return apply_overrides(tree(text), overrides, HERE, []).plain()


def test_merging_keeps_what_is_not_stated() -> None:
    assert merge(tree("a: {b: 1, c: 2}\nd: [1, 2]"), tree("a: {c: 3}\nd: [4]")).plain() == {
        "a": {"b": 1, "c": 3},
        "d": [4],
    }


def test_merging_another_kind_starts_afresh() -> None:
    assert merge(tree("a: {kind: x, c: 2}"), tree("a: {kind: y}")).plain() == {"a": {"kind": "y"}}
    assert merge(tree("a: {kind: x, c: 2}"), tree("a: {kind: x}")).plain() == {"a": {"kind": "x", "c": 2}}


def test_overrides_reach_anywhere() -> None:
    assert overridden("a: [{b: 1}]", "a.0.b=2", "a.1.b=3", "c.d=[x]") == {"a": [{"b": 2}, {"b": 3}], "c": {"d": ["x"]}}


def test_the_kind_comes_first_whatever_the_order() -> None:
    assert overridden("a: {kind: x, c: 1}", "a.d=2", "a.kind=y") == {"a": {"kind": "y", "d": 2}}


def test_a_scalar_gives_way_to_a_mapping() -> None:
    assert overridden("a: 1.0", "a.kind=x") == {"a": {"kind": "x"}}


def test_the_last_of_equal_keys_holds() -> None:
    assert overridden("a: 1", "a=2", "a=3") == {"a": 3}


def test_the_tree_that_was_given_is_not_changed() -> None:
    before = tree("a: {b: [1]}")
    apply_overrides(before, ["a.b.0=2", "a.c=1"], HERE, [])
    assert before.plain() == {"a": {"b": [1]}}


values = st.recursive(
    st.one_of(st.integers(-9, 9), st.sampled_from(["x", "no"])),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def stated(value: Any) -> Stated:
    origin = tree("a: 1").origin
    return Stated({key: stated(item) for key, item in value.items()} if isinstance(value, dict) else value, origin)


def slow_merge(base: Any, top: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(top, dict)):
        return top
    keys = {*base, *top}
    return {k: slow_merge(base[k], top[k]) if k in base and k in top else {**base, **top}[k] for k in keys}


@given(base=values, top=values)
def test_merging_is_the_obvious_thing(base: Any, top: Any) -> None:
    assert merge(stated(base), stated(top)).plain() == slow_merge(base, top)
