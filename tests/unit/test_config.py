"""Configurations against dataclasses of the standard library, and limits against pydantic."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Annotated, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config import Limits, config


class Keys:
    """Keys of both forms."""

    unit: ClassVar[str] = "m"
    length: float
    names: list[str] = dataclasses.field(default_factory=list)
    half: float = dataclasses.field(init=False, default=0.0)

    def __post_init__(self) -> None:
        if self.length < 0:
            raise ValueError("length: negative")
        object.__setattr__(self, "half", self.length / 2)


@config
class Ours:
    """A configuration."""

    __annotations__ = Keys.__annotations__
    unit, names, half, __post_init__ = Keys.unit, Keys.names, Keys.half, Keys.__post_init__


@dataclasses.dataclass(frozen=True, kw_only=True)
class Theirs:
    """The same as a dataclass."""

    __annotations__ = Keys.__annotations__
    unit, names, half, __post_init__ = Keys.unit, Keys.names, Keys.half, Keys.__post_init__


@config
class Longer(Ours):
    """A configuration that inherits keys."""

    size: int = 3


@pytest.mark.parametrize("cls", [Ours, Theirs])
def test_a_configuration_is_a_frozen_dataclass(cls: type) -> None:
    one, same, other = cls(length=3.0), cls(length=3.0, names=[]), cls(length=4.0)
    assert (one == same, one == other, one == (3.0, [])) == (True, False, False)
    assert repr(one) == f"{cls.__name__}(length=3.0, names=[], half=1.5)"
    assert dataclasses.asdict(one) == {"length": 3.0, "names": [], "half": 1.5}
    assert dataclasses.replace(one, length=4.0) == other
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert one.names is not same.names
    for attempt in (lambda: setattr(one, "length", 1.0), lambda: delattr(one, "length")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            attempt()
    for wrong in ({}, {"length": 1.0, "width": 2.0}):
        with pytest.raises(TypeError):
            cls(**wrong)
    with pytest.raises(TypeError):
        cls(3.0)
    with pytest.raises(ValueError, match="length: negative"):
        cls(length=-1.0)


def test_keys_are_inherited_and_hashed() -> None:
    assert repr(Longer(length=2.0)) == "Longer(length=2.0, names=[], half=1.0, size=3)"
    assert Longer(length=2.0) != Ours(length=2.0)

    @config
    class Hashable:
        """A configuration of scalars."""

        size: int = 3

    assert hash(Hashable()) == hash(Hashable(size=3))
    assert {Hashable(), Hashable(size=3), Hashable(size=4)} == {Hashable(), Hashable(size=4)}


BOUNDS = st.integers(-3, 3)
NUMBERS = st.one_of(st.integers(-5, 5), st.floats(-5, 5), st.just(float("nan")), st.just(float("inf")))


@given(bounds=st.dictionaries(st.sampled_from(["gt", "ge", "lt", "le"]), BOUNDS, min_size=1), value=NUMBERS)
def test_bounds_are_those_of_pydantic(bounds: dict[str, int], value: float) -> None:
    pydantic = pytest.importorskip("pydantic")
    messages = []
    for name, bound in bounds.items():
        try:
            pydantic.TypeAdapter(Annotated[float, pydantic.Field(**{name: bound})]).validate_python(value)
        except pydantic.ValidationError as error:
            messages.append(error.errors()[0]["msg"].replace("Input should be", "must be"))
    assert Limits(**bounds).problem(value) in (messages or [None])


@pytest.mark.parametrize(
    ("limits", "good", "bad", "problem"),
    [
        (Limits(multiple_of=4), 8, 6, "must be a multiple of 4"),
        (Limits(min_length=2), [1, 2], [1], "must have at least 2 items, not 1"),
        (Limits(min_length=1), "x", "", "must have at least 1 character, not 0"),
        (Limits(max_length=1), "x", "xy", "must have at most 1 character, not 2"),
        (Limits(pattern=r"^\w+\Z"), "ab", "ab\n", r"must match pattern ^\w+\Z"),
        (Limits(pattern=r"\S", description="text"), " a", " ", "must be text"),
    ],
)
def test_limits_of_lengths_and_patterns(limits: Limits, good: object, bad: object, problem: str) -> None:
    assert limits.problem(good) is None
    assert limits.problem(bad) == problem
