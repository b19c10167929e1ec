"""Requests before they are parsed: their keys are those of the parser, and their values are counted."""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import urlencode

import pytest

from mtkit.serve.clients import RequestError
from mtkit.serve.fronts import requests as module
from mtkit.serve.fronts.exchange import Bodies
from tests.toy.sampling import seeds

SEEDS = seeds(20, 200)
PARTS = ["a", " ", '"', "\\", "/", "[", "{", ",", ":", "\n", "&", "=", "ä", "中", "😀", '"api_key": "x"', "api_key=x"]


def text(rng: random.Random) -> str:
    return "".join(rng.choices(PARTS, k=rng.randrange(12)))


def value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(3 if depth > 3 else 5)
    if kind == 3:
        return [value(rng, depth + 1) for _ in range(rng.randrange(5))]
    if kind == 4:
        return {f"{number}{text(rng)}": value(rng, depth + 1) for number in range(rng.randrange(5))}
    return [text(rng), rng.random(), None][kind]


def count(tree: Any) -> int:
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return 1 + sum(map(count, parts))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_key_is_that_of_the_parsed_body(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        fields = {"q": text(rng), "source": "en", "api_key": f"k{text(rng)}", "s": text(rng)}
        names = rng.sample([*fields], len(fields))
        body = json.dumps(
            {name: fields[name] for name in names}, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2])
        )
        assert module._find_key(body.encode(), is_form=False) == fields["api_key"]
        form = urlencode([(name, fields[name]) for name in names])
        assert module._find_key(form.encode(), is_form=True) == fields["api_key"]
        del fields["api_key"]
        assert module._find_key(json.dumps(fields).encode(), is_form=False) is None
        assert module._find_key(urlencode(fields).encode(), is_form=True) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_values_are_counted_without_a_parser(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    tree = {"a": value(rng), "b": value(rng)}
    body = json.dumps(tree, ensure_ascii=rng.random() < 0.5).encode()
    num_values = count(tree)
    counted = module._count_values(body)
    assert (num_values - 1) / 2 <= counted <= 2 * num_values
    monkeypatch.setattr(module, "MAX_VALUES", counted - 1)
    with pytest.raises(RequestError, match="JSON of more than"):
        module._count_values(body)


def test_hostile_bodies_are_counted_in_linear_work() -> None:
    for body in (b'"' * 1_000_001, b'"' + b'\\"' * 500_000, b"\\" * 1_000_000, b'"\\' * 500_000):
        assert module._count_values(body) == 0
        assert module._find_key(body, is_form=False) is None
    with pytest.raises(RequestError, match="50,000 values"):
        module._count_values(b"[" * 1_000_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_client_holds_more_than_its_half_and_all_are_let_go(seed: int) -> None:
    rng, bodies, bound = random.Random(seed), Bodies(1000), 1000
    held: dict[str, int] = {}
    refused = 0
    for _ in range(500):
        name = rng.choice("abcd")
        change = rng.randrange(1, 200) if rng.random() < 0.6 else -rng.randrange(held.get(name, 0) + 1)
        fits = sum(held.values()) + change <= bound and held.get(name, 0) + change <= bound // 2
        if fits or change <= 0:
            bodies.add(name, change, max_body=1)
            held[name] = held.get(name, 0) + change
        else:
            refused += 1
            with pytest.raises(RequestError, match="too long together"):
                bodies.add(name, change, max_body=1)
        assert sum(held.values()) <= bound
        assert max(held.values(), default=0) <= bound // 2
    assert refused
    for name, size in held.items():
        bodies.add(name, -size, max_body=1)
    assert (bodies._bytes, dict(bodies._of_client)) == (0, {})
