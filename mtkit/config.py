"""Configuration classes: the decorator that makes them, and the limits of their keys.

    @config
    class DropoutConfig:
        \"\"\"Dropout of activations.\"\"\"

        # Share of the activations. Default: that of the base model.
        rate: Annotated[float, Limits(ge=0, lt=1)] = 0.1

A configuration is a frozen dataclass with keyword arguments. Its methods are shared by all configurations, where
`dataclass` would generate and compile six for each class: a command imports some hundred of them, which took a fifth of
the time of a short translation. Types and limits are checked where a recipe or a file is read (recipe/schema.py), not
when an object is made.
"""

from __future__ import annotations

import operator
import re
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def config(cls: type[T]) -> type[T]:
    """Make a frozen dataclass of a class with annotated keys. It is a dataclass to `fields`, `replace`, `asdict`."""
    dataclass(init=False, repr=False, eq=False)(cls)
    for name in _SHARED:
        if name not in vars(cls):
            setattr(cls, name, vars(_Configuration)[name])
    return cls


class _Configuration:
    """Methods that all configurations share."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init__(self, **values: Any) -> None:
        for key in fields(self):
            if key.name in values:
                value = values.pop(key.name)
            elif key.default is not MISSING:
                value = key.default
            elif key.default_factory is not MISSING:
                value = key.default_factory()
            else:
                raise TypeError(f"{type(self).__name__}: {key.name} is missing")
            object.__setattr__(self, key.name, value)
        if values:
            raise TypeError(f"{type(self).__name__}: no such key: {', '.join(values)}")
        if hasattr(self, "__post_init__"):
            self.__post_init__()

    def __repr__(self) -> str:
        keys = (f"{key.name}={value!r}" for key, value in zip(fields(self), _values(self), strict=True))
        return f"{type(self).__qualname__}({', '.join(keys)})"

    def __eq__(self, other: object) -> bool:
        return _values(self) == _values(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(_values(self))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to {type(self).__name__}.{name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete {type(self).__name__}.{name}")


_SHARED = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")


def _values(config: Any) -> tuple[Any, ...]:
    return tuple(getattr(config, name) for name in _names(config.__class__))


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(key.name for key in fields(kind))


def _is_multiple(value: float, factor: float) -> bool:
    return value % factor == 0


def load_class(path: str) -> Any:
    """Class at a path below mtkit, such as `layers.positions:RoPE`; its module is imported."""
    module, _, name = path.partition(":")
    return getattr(import_module(f"mtkit.{module}"), name)


def construct(config: Any, *args: Any, **kwargs: Any) -> T:  # type: ignore[type-var]
    """Object of the class that a configuration names in `builds`, made of the configuration and further arguments.

    The class is imported here, so that recipes are read and checked without torch.
    """
    built: T = load_class(config.builds)(config, *args, **kwargs)
    return built


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a key's value, in the metadata of its type: `Annotated[int, Limits(gt=0)]`.

    Attributes:
        gt, ge, lt, le: bounds of a number; NaN is outside any.
        multiple_of: of an integer.
        min_length, max_length: of a string or list.
        pattern: regular expression that is found in a string.
        description: what the pattern stands for, such as `a name without spaces`.
    """

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    multiple_of: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    description: str = ""

    def problem(self, value: Any) -> str | None:
        """Requirement that a value misses, such as `must be greater than 0`; None: it is within the limits."""
        for bound, words, is_within in (
            (self.gt, "greater than", operator.gt),
            (self.ge, "greater than or equal to", operator.ge),
            (self.lt, "less than", operator.lt),
            (self.le, "less than or equal to", operator.le),
            (self.multiple_of, "a multiple of", _is_multiple),
        ):
            if bound is not None and not is_within(value, bound):
                return f"must be {words} {bound:.15g}" if isinstance(bound, float) else f"must be {words} {bound}"
        unit = "character" if isinstance(value, str) else "item"
        for bound, words, is_within in (
            (self.min_length, "at least", operator.ge),
            (self.max_length, "at most", operator.le),
        ):
            if bound is not None and not is_within(len(value), bound):
                return f"must have {words} {bound} {unit}{'s' * (bound != 1)}, not {len(value)}"
        if self.pattern is not None and not re.search(self.pattern, value):
            return f"must be {self.description}" if self.description else f"must match pattern {self.pattern}"
        return None
