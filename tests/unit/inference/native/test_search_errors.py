"""Whole searches in the library: exhausted memory and interruptions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mtkit.inference.native import search as native_search
from tests.unit.inference.native.toy_searches import OtherFunctions, beam, in_library, model_that_ends, request

pytestmark = pytest.mark.usefixtures("library")


@pytest.mark.parametrize(("name", "result"), [("mtkit_search_begin", None), ("mtkit_search_run", -1)])
def test_exhausted_memory_is_an_error(name, result, monkeypatch) -> None:
    model = model_that_ends(torch.float32)
    functions = OtherFunctions(model.functions, **{name: lambda *_: result})
    monkeypatch.setattr(model, "functions", functions)
    with pytest.raises(RuntimeError, match="memory"):
        in_library(beam(), model)(request())


def test_a_search_without_memory_does_not_begin() -> None:
    """Four terabytes of cache are refused without a crash."""
    model = model_that_ends(torch.float32)
    native, asked, begun = in_library(beam(), model), request(), []

    def begin(task: Any, places: int) -> Any:
        begun.append(model.functions.functions.mtkit_search_begin(task, 1 << 28))
        return begun[-1]

    model.functions = OtherFunctions(model.functions, mtkit_search_begin=begin)
    with pytest.raises(RuntimeError, match="memory"):
        native(asked)
    assert begun == [None]


@pytest.mark.usefixtures("two_threads")
def test_an_interruption_ends_all_threads(monkeypatch) -> None:
    model = model_that_ends(torch.float32)
    ended: list[Any] = []
    run, end = model.functions.mtkit_search_run, model.functions.mtkit_search_end
    calls: list[int] = []

    def interrupted(handle: Any, steps: int) -> int:
        calls.append(steps)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return max(1, run(handle, 1))  # would never end

    monkeypatch.setattr(native_search, "MIN_ITEMS", 1)
    functions = OtherFunctions(
        model.functions, mtkit_search_run=interrupted, mtkit_search_end=lambda handle: ended.append(end(handle))
    )
    monkeypatch.setattr(model, "functions", functions)
    with pytest.raises(KeyboardInterrupt):
        in_library(beam(), model)(request())
    assert len(ended) == 2
