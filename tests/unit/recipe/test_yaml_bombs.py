"""Small YAML files that are expensive to read or to print: each is refused in short lines, before it is expanded."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.errors import MtkitError, RecipeError
from mtkit.recipe.recipe import load_recipe
from mtkit.recipe.yaml_reader import MAX_BYTES, MAX_DEPTH, MAX_VALUES, read_value, read_yaml, read_yaml_file
from tests.toy.sampling import sampled

KEYS = (
    "name", "corpus.src_lang", "tokenizer.vocab_size", "model.d_model", "model.dropout", "training.max_updates",
    "training.seed", "training.batch_tokens", "training.schedule", "search.beam_size", "search.max_length",
    "evaluation.metrics", "corpus.cleaning.max_ratio", "corpus.test", "model.positions",
)  # fmt: skip


def integer(rng: random.Random) -> str:
    digits = rng.choice([1, 30, 39, 40, 41, 310, 4299, 4301, 5000, 20_000])
    sign, base = rng.choice(["", "-", "+"]), rng.choice(["", "0x", "0o"])
    return f"{sign if not base else ''}{base}{rng.choice('1234567') * digits}"


def decimal(rng: random.Random) -> str:
    return rng.choice(["1." + "9" * 9000, "." + "0" * 6000 + "1", "1e" + "9" * 3000, "1e400", "-1E-400"])


def text(rng: random.Random) -> str:
    return rng.choice(['"' + "x" * 20_000 + '"', "'" + "é " * 4000 + "'", "!" + "t" * 9000 + " x", "&" + "a" * 9000])


def collection(rng: random.Random) -> str:
    deep, wide = rng.choice([39, 41, 900, 20_000]), rng.choice([10, 9_999, 30_000])
    options = ["[" * deep + "]" * deep, "{a: " * deep + "}" * deep, "[" + "1," * wide + "]", "? " * deep, "*nothing"]
    return rng.choice([*options, "&a [*a]", "{" + "k" * 20_000 + ": 1}", "[[" * deep, "{<<: {a: 1}}"])


def aliases(rng: random.Random) -> str:
    levels, width = rng.choice([(12, 2), (30, 2), (6, 9), (60, 1), (900, 1)])
    first = "[&a0 x, "
    return first + ", ".join(f"&a{n} [" + f"*a{n - 1}," * width + "]" for n in range(1, levels)) + "]"


GENERATORS: tuple[Callable[[random.Random], str], ...] = (integer, decimal, text, collection, aliases)


@pytest.mark.whole
@pytest.mark.parametrize("generator", GENERATORS)
def test_every_bomb_is_read_or_refused_in_short_lines(
    generator: Callable[[random.Random], str], tmp_path: Path
) -> None:
    rng, path = random.Random(1), tmp_path / "x.yaml"
    longest = []
    count = sampled(60)
    for _ in range(count):
        key, value = rng.choice(KEYS), generator(rng)
        parts = key.split(".")
        nested = "".join(f"{'  ' * depth}{part}:\n" for depth, part in enumerate(parts))[:-1]
        path.write_text(f"base: quickstart\n{nested} {value}\n")
        for arguments in ((str(path),), ("quickstart", [f"{key}={value}"])):
            try:
                load_recipe(*arguments)  # type: ignore[arg-type]
            except MtkitError as error:
                longest.append(max(map(len, str(error).split("\n"))))
    assert len(longest) > count
    assert max(longest) < 700


def test_a_file_of_comments_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("# " + "a" * 50_000_000 + "\na: 1\n")
    with pytest.raises(RecipeError, match="more than 256 KiB; is this a recipe"):
        read_yaml_file(path, [])
    path.write_text("#" * (MAX_BYTES - 7) + "\na: 1\n")
    assert read_yaml_file(path, []).to_plain() == {"a": 1}


def test_composition_ends_at_the_first_value_too_many() -> None:
    lines = "".join(f"a{n}: &a{n} 1\n" for n in range(100_000))
    with pytest.raises(RecipeError, match=f"x.yaml:{MAX_VALUES // 2}: invalid YAML: more than 10,000 values"):
        read_yaml(lines, "x.yaml", Path("/"), [])


@pytest.mark.parametrize("alias", [False, True])
def test_nesting_has_a_limit(alias: bool) -> None:
    document = "a: " + "[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2)
    if alias:
        document = "a: &a0 [x]\n" + "".join(f"b{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 2000))
    with pytest.raises(RecipeError, match="40 levels"):
        read_yaml(document, "x.yaml", Path("/"), [])


def test_numbers_too_long_are_counted_instead_of_quoted() -> None:
    for number in ("9" * 5000, "0x" + "f" * 5000, "1." + "0" * 5000, "-" + "1" * 5000):
        errors: list[str] = []
        read_value(number, "a.b", Path("/"), errors)
        assert errors == [f"command line: a.b: a number of {len(number):,} characters; at most 40 are read"]


def test_merge_keys_are_named() -> None:
    errors: list[str] = []
    read_yaml("a: &a {x: 1}\nb:\n  <<: *a\n  y: 2\nc: {<<: [*a]}\nd: {'<<': 1}", "x.yaml", Path("/"), errors)
    message = "merge keys (<<) are not supported; write the keys out, or name a file as base: FILE"
    assert errors == [f"x.yaml:3: {message}", f"x.yaml:5: {message}"]
