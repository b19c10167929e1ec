"""The cache of translations: its bound holds for all of what an entry keeps."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest

from mtkit.serve.core import TranslationCache
from tests.toy.sampling import seeds


def text(rng: random.Random) -> str:
    return "".join(rng.choices(rng.choice(["ab ", "äöü ", "中文", "😀"]), k=rng.randrange(1, 200)))


def result(rng: random.Random) -> dict[str, Any]:
    """A result as workers send it, any part of which may be the largest."""
    value: dict[str, Any] = {"hyp": text(rng), "flags": []}
    for name in ("alternatives", "flags", "confidence"):
        value[name] = [text(rng) if name != "confidence" else rng.random() for _ in range(rng.randrange(20))]
    value["alignment"] = [[rng.randrange(1000), rng.randrange(1000)] for _ in range(rng.randrange(40))]
    value["terms"] = [[text(rng), text(rng)] for _ in range(rng.randrange(9))]
    for name in ("dropped", "invented"):
        value[name] = [[rng.randrange(1000), text(rng), rng.random()] for _ in range(rng.randrange(9))]
    value["next"] = [[text(rng), text(rng)] for _ in range(rng.randrange(9))]
    return value


@pytest.mark.whole
@pytest.mark.parametrize("seed", seeds(20, 200))
def test_its_memory_is_within_its_bound(seed: int) -> None:
    rng, bound = random.Random(seed), 60_000
    cache = TranslationCache(bound)
    tracemalloc.start()
    try:
        for _ in range(40):
            beginning = text(rng) * rng.choice([0, 1, 5])
            cache.put(((rng.randbytes(32), 1, text(rng)), text(rng), beginning), result(rng))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * bound < used < 1.2 * bound


def test_the_entry_used_last_stays() -> None:
    cache = TranslationCache(2000)
    for number in range(50):
        cache.put(((), "first", ""), {"hyp": "erster"}) if not number else None
        assert cache.get(((), "first", "")) == {"hyp": "erster"}
        cache.put(((), f"text {number}", ""), {"hyp": "x"})
    assert cache.get(((), "text 0", "")) is None


def test_an_entry_that_is_put_again_counts_once() -> None:
    cache = TranslationCache(2000)
    cache.put(((), "other", ""), {"hyp": "andere"})
    for _ in range(50):
        cache.put(((), "again", ""), {"hyp": "nochmals"})
    assert cache.get(((), "other", "")) == {"hyp": "andere"}
