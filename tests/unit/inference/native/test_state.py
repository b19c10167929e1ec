"""State of the native decoder: it can be continued twice, and the cache grows and shrinks without effect."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from mtkit.inference.native import state as native_state
from mtkit.inference.native.state import CacheBuffer, NativeCache
from mtkit.models.interface import State, TranslationModel
from tests.unit.inference.native.toy_models import SERVED, build, native_model, right_padded
from tests.unit.inference.test_fused_decoder import decode

pytestmark = pytest.mark.usefixtures("library")

FIRST, SECOND, THIRD = torch.tensor([5, 6, 7]), torch.tensor([8, 9, 10]), torch.tensor([11, 12, 13])
TWO = torch.arange(3).repeat_interleave(2)


def state_after(model: TranslationModel, steps: int) -> State:
    """The state after some steps with one hypothesis of three sentences."""
    state = model.start(right_padded([5, 3, 4]))
    for _ in range(steps):
        state = model.step(torch.tensor([2, 2, 2]), state).state
    return state


@torch.inference_mode()
@pytest.mark.parametrize("steps", [0, 1, 15, 16, 17])
def test_a_state_can_be_continued_twice(steps) -> None:
    model = native_model()
    state = state_after(model, steps)
    first, second = model.step(FIRST, state), model.step(SECOND, state)
    after_first, after_second = model.step(THIRD, first.state).logits(), model.step(THIRD, second.state).logits()
    assert not torch.equal(first.logits(), second.logits())
    assert not torch.equal(after_first, after_second)
    again = model.step(FIRST, state)
    assert torch.equal(again.logits(), first.logits())
    assert torch.equal(model.step(THIRD, again.state).logits(), after_first)
    assert torch.equal(model.step(THIRD, second.state).logits(), after_second)


@torch.inference_mode()
@pytest.mark.parametrize("steps", [0, 1, 2, 16])
def test_a_state_is_valid_after_select_rows(steps) -> None:
    model, written = native_model(), build()
    found, expected = [], []
    for each, logits in ((model, found), (written, expected)):
        state = state_after(each, steps)
        wide = state.select_rows(TWO)
        for branch in (wide, wide, state, wide.select_rows(torch.tensor([1, 0, 3, 3, 4, 5])), state):
            step = each.step(torch.arange(5, 5 + branch.num_rows), branch)
            logits += [step.logits(), each.step(torch.arange(20, 20 + branch.num_rows), step.state).logits()]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize(("steps", "width"), [(0, 40), (1, 40), (3, 40), (20, 7)])
def test_a_beam_that_is_wider_than_the_first_cache(steps, width) -> None:
    logits = []
    for model in (native_model(), build()):
        state = state_after(model, steps).select_rows(torch.arange(3).repeat_interleave(width))
        for token in (torch.arange(3 * width) % 50 + 5, torch.arange(3 * width) % 7 + 5):
            step = model.step(token, state)
            state = step.state
        logits.append(step.logits())
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_sentences_leave_before_and_after_they_have_hypotheses() -> None:
    logits = []
    for model in (native_model(), build()):
        state = state_after(model, 2).keep_sentences(torch.tensor([2, 0]))
        state = state.select_rows(torch.tensor([0, 0, 0, 1, 1, 1]))
        for token, sentences in ((torch.arange(5, 11), [1, 0]), (torch.arange(11, 17), [1])):
            state = model.step(token, state).state.keep_sentences(torch.tensor(sentences))
        step = model.step(torch.tensor([5, 6, 7]), state)
        logits.append([step.logits(), step.attention])
        assert (
            model.step(torch.zeros(0, dtype=torch.int64), step.state.keep_sentences(torch.zeros(0).long())) is not None
        )
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fraction", [1, 4, 10**6], ids=["if nearly all", "if a quarter", "if any"])
@pytest.mark.parametrize("capacity", [2, 16])
@pytest.mark.parametrize("config", ["sinusoidal", "pruned_heads", "rope_in_both"])
def test_the_cache_grows_and_drops_dead_slots_without_effect(config, capacity, fraction, monkeypatch) -> None:
    model = native_model(SERVED[config])
    expected = decode(model, steps=40)
    monkeypatch.setattr(native_state, "MIN_CAPACITY", capacity)
    monkeypatch.setattr(native_state, "DEAD_FRACTION", fraction)
    found = decode(model, steps=40)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    torch.testing.assert_close(found, decode(build(SERVED[config]), steps=40), rtol=1e-4, atol=1e-5)


def test_dead_slots_are_dropped(monkeypatch) -> None:
    monkeypatch.setattr(native_state, "MIN_CAPACITY", 2)
    used, capacities = [], set()
    extended = NativeCache.extended

    def record(cache: NativeCache) -> NativeCache:
        after = extended(cache)
        used.append(after.used)
        capacities.add(after.buffer.capacity)
        return after

    monkeypatch.setattr(NativeCache, "extended", record)
    decode(native_model(), steps=40)
    assert any(after < before for before, after in itertools.pairwise(used))
    assert len(capacities) > 2
    assert used[-1] < 3 * 40  # of at most four hypotheses, most of whose prefixes are shared


def live_tokens(cache: NativeCache) -> list[list[float]]:
    """What the cache contains for each hypothesis, from the first key of the first layer."""
    keys: Tensor = cache.buffer.layers[0][0]
    rows = cache.slots.view(cache.storage.numel(), cache.width, -1)
    return [
        [float(keys[store, slot, 0]) for slot in row]
        for store, hypotheses in zip(cache.storage.tolist(), rows.tolist(), strict=True)
        for row in hypotheses
    ]


def test_renumbered_slots_hold_the_same_tokens() -> None:
    keys = torch.arange(3 * 9.0).view(3, 9, 1)
    slots = torch.tensor([[0, 7], [0, 5], [2, 4], [3, 4]], dtype=torch.int32)
    storage = torch.tensor([2, 0], dtype=torch.int32)
    cache = NativeCache(CacheBuffer([(keys, -keys)], 8), storage, slots, length=2, used=8, width=2)
    renumbered = cache._without_dead_slots()
    assert renumbered.used == 3
    assert renumbered.buffer.layers[0][0].shape == (2, 3, 1)
    assert live_tokens(renumbered) == live_tokens(cache) == [[18.0, 25.0], [18.0, 23.0], [2.0, 4.0], [3.0, 4.0]]
    assert torch.equal(renumbered.buffer.layers[0][1], -renumbered.buffer.layers[0][0])
    copied = renumbered._copied()
    assert copied.buffer.capacity >= copied.used + copied.width
    assert live_tokens(copied) == live_tokens(cache)


def test_few_dead_slots_stay() -> None:
    keys = torch.zeros(1, 9, 1)
    slots = torch.tensor([[0, 1, 2, 3, 4, 5, 6]], dtype=torch.int32)
    cache = NativeCache(CacheBuffer([(keys, keys)], 8), torch.zeros(1).int(), slots, length=7, used=8, width=1)
    assert cache._without_dead_slots() is cache
