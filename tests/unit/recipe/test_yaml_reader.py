"""YAML reader: the scalars of YAML 1.2's core schema, line numbers, and messages about invalid files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.errors import MissingInputError, RecipeError
from mtkit.recipe.yaml_reader import read_value, read_yaml, read_yaml_file

HERE = Path("/folder")


def value(text: str) -> object:
    errors: list[str] = []
    plain: object = read_yaml(f"key: {text}", "x.yaml", HERE, errors).to_plain()["key"]
    assert not errors
    return plain


@pytest.mark.parametrize(
    "word", ["no", "yes", "on", "off", "y", "1:30", "2020-01-01", "1_000", "=", "<<", "0b1", "1e", "+"]
)
def test_words_are_strings(word: str) -> None:
    assert value(word) == word


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-4", 1e-4), ("1.", 1.0), (".5", 0.5), ("-2.5E+3", -2500.0), ("12", 12), ("-3", -3), ("+4", 4), ("007", 7),
        ("0x1F", 31), ("0o17", 15), ("true", True), ("FALSE", False), ("~", None), ("", None), ("null", None),
        ("'1'", "1"), ('"true"', "true"), ("!!str 12", "12"), ("!!int '12'", 12),
    ],
)  # fmt: skip
def test_scalars_of_the_core_schema(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_keys_are_strings_as_written() -> None:
    assert read_yaml("2016: a\nno: b", "x.yaml", HERE, []).to_plain() == {"2016": "a", "no": "b"}


def test_every_value_has_its_line() -> None:
    tree = read_yaml("a: 1\nb:\n  - x\n  - c: 2\n", "x.yaml", HERE, [])
    assert tree.value["b"].value[1].value["c"].origin.location == "x.yaml:4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", "x.yaml:2: a: duplicate key; first defined in line 1"),
        ("a: .inf", "x.yaml:1: .inf is not a finite number"),
        ("a: .NaN", "x.yaml:1: .NaN is not a finite number"),
        ("a: 1e999", "x.yaml:1: 1e999 is not a finite number"),
        (
            "a: !!python/name:os.system",
            "x.yaml:1: the tag tag:yaml.org,2002:python/name:os.system is not allowed in a recipe",
        ),
        ("a: !!int x", "x.yaml:1: 'x' does not match its tag"),
        ("[1, 2]: a", "x.yaml:1: a key must be a scalar"),
    ],
)
def test_errors_are_collected(text: str, message: str) -> None:
    errors: list[str] = []
    read_yaml(text, "x.yaml", HERE, errors)
    assert errors == [message]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.yaml: the file is empty"),
        ("a: [", "x.yaml:1: invalid YAML: expected the node content, but found '<stream end>'"),
        ("a: 1\n\tb: 2", "x.yaml:2: invalid YAML: found character '\\t' that cannot start any token"),
        ("a: 1\n---\nb: 2", "x.yaml:2: invalid YAML: but found another document"),
        ("a: &a [*a]", "x.yaml:1: a recursive alias"),
        ("a: \x00", "x.yaml: invalid YAML: unacceptable character #x0000"),
    ],
)
def test_invalid_yaml_is_refused(text: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read_yaml(text, "x.yaml", HERE, [])
    assert str(caught.value).startswith(message)


def test_exponential_aliases_are_refused() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    with pytest.raises(RecipeError, match="aliases of more than 10,000 values"):
        read_yaml("\n".join(lines), "x.yaml", HERE, [])


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(RecipeError) as caught:
        read_yaml_file(path, [])
    assert str(caught.value) == f"{path}:2: byte 0xff is not UTF-8"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=f"{tmp_path}: a folder, where a file is expected"):
        read_yaml_file(tmp_path, [])


def test_values_of_overrides() -> None:
    errors: list[str] = []
    assert read_value("{a: [1, no]}", "key", HERE, errors).to_plain() == {"a": [1, "no"]}
    assert read_value("", "key", HERE, errors).to_plain() is None
    read_value(".nan", "key", HERE, errors)
    assert errors == ["command line: key: .nan is not a finite number"]
    with pytest.raises(RecipeError, match="command line: key:1: invalid YAML"):
        read_value("[", "key", HERE, [])
