"""Arguments of the public functions that are no lists of texts are refused with what is expected."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

import mtkit
from tests.unit.translate.toy_translator import translator

TEXTS: list[Any] = ["Tom is here.", "", b"Tom", bytearray(b"Tom"), None, 3, 2.5, {"a": "b"}, {"a"}, object()]


def bad_lists() -> list[Any]:
    """Values that are no list of texts: one text, other types, and lists with an item of another type."""
    rng = random.Random(2)
    items = [None, b"Tom", 3, 2.5, ["Tom"], {"text": "Tom"}, ("Tom",), object()]
    lists = [["a"] * rng.randint(0, 3) + [item] + ["b"] * rng.randint(0, 2) for item in items * 5]
    return [*TEXTS, *lists, *(tuple(each) for each in lists)]


def test_translate(tokenizers) -> None:
    """One text is not translated letter by letter; the error comes at the call, or at the line."""
    model = translator(tokenizers)
    for value in bad_lists():
        if isinstance(value, str):
            assert model.translate(value) == "\n".join(model.translate_lines(value.split("\n")))
            with pytest.raises(TypeError, match=r"lines: a list is expected, not str; put one text into a list"):
                model.translate_lines(value)
            continue
        with pytest.raises(TypeError, match=r"^lines: a list is expected, not |^line \d+: a str is expected, not "):
            list(model.translate(value))
        with pytest.raises(TypeError, match=r"^lines: a list is expected, not |^line \d+: a str is expected, not "):
            model.translate_lines(value)
    with pytest.raises(TypeError, match=r"not int$"):  # a number is no text that could be put into a list
        model.translate(5)
    assert model.translate("the dog\n\na cat") == "\n".join(model.translate_lines(["the dog", "", "a cat"]))
    assert len(model.translate_lines(line for line in ["the dog", "", "a cat"])) == 3  # any iterable


@pytest.mark.parametrize(
    "call",
    [
        lambda value: mtkit.evaluate(value, [["a"]]),
        lambda value: mtkit.evaluate(["a"], [value]),
        lambda value: mtkit.evaluate(["a"], value),
        lambda value: mtkit.evaluate(["a"], [["a"]], value),
        lambda value: mtkit.evaluate(["a"], [["a"]], src=value),
        lambda value: mtkit.load_recipe("quickstart", value),
        lambda value: mtkit.load_model("model", search_overrides=value),
    ],
    ids=["hyps", "reference", "refs", "metrics", "src", "overrides", "search overrides"],
)
def test_lists_of_texts(call: Callable[[Any], object], request: pytest.FixtureRequest) -> None:
    for value in bad_lists():
        if value is None and "src" in request.node.name:
            continue
        with pytest.raises(TypeError, match=r"^[\w\[\]]+: a (list|str) is expected, not \w+"):
            call(value)


def test_other_arguments() -> None:
    not_paths = [None, 3, b"x", ["a"], {"a": 1}, object()]
    for function, value in itertools.product((mtkit.load_recipe, mtkit.evaluate_run), not_paths):
        with pytest.raises(TypeError, match=r"^\w+: a path is expected, not \w+"):
            function(value)
    for function, value in itertools.product((mtkit.run, mtkit.train), [*not_paths, "quickstart"]):
        with pytest.raises(TypeError, match=r"recipe: a Recipe is expected, not \w+; mtkit.load_recipe reads one"):
            function(value)
    for value in (None, 3, b"x", {"a": 1}):
        with pytest.raises(TypeError, match="models: a list is expected, not "):
            mtkit.load_model(value)
    with pytest.raises(ValueError, match="metrics: 'blue' is no metric; the metrics are bleu, "):
        mtkit.evaluate(["a"], [["a"]], ["bleu", "blue"])
