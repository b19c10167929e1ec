"""Language: unique class names, docstrings that begin with a noun, plain sentences."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.unit.house.source_code import FILES, FUNCTION, PROGRAMS, SOURCES, name, tree

NO_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}


def test_class_names_are_unique() -> None:
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name(path))
    assert {each: where for each, where in places.items() if len(where) > 1} == {}


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | FUNCTION) and (text := ast.get_docstring(node)):
            yield (1 if isinstance(node, ast.Module) else node.lineno), text


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    faults = [
        f"{name(path)}:{line}: {text.splitlines()[0]}"
        for path in FILES
        for line, text in docstrings(path)
        if re.match(r"(What|Who|Whose|Which|How|Where|Why)\b", text)
    ]
    assert faults == []


def test_predicates_begin_with_a_verb() -> None:
    """A function returns whether something holds; a property is "True if" it holds."""
    faults = [
        f"{name(path)}:{node.lineno}: {node.name}"
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, FUNCTION) and (ast.get_docstring(node) or "").startswith("Whether")
    ]
    assert faults == []


DIALECT = re.compile(r"\b(so many|as many as|nobody|in place of|likewise|ibidem|but for|anew|is told|hears)\b")


def test_sentences_are_plain() -> None:
    """Comments, docstrings and messages avoid phrases that a reader of technical English has to decode."""
    faults = []
    for path in SOURCES:
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type in (tokenize.STRING, tokenize.COMMENT) and (match := DIALECT.search(token.string)):
                    faults.append(f"{name(path)}:{token.start[0]}: {match.group()}")
    assert faults == []


def test_every_file_has_a_concept_for_a_name() -> None:
    sources = [*SOURCES, *PROGRAMS]
    assert {name(path) for path in sources if path.stem in NO_NAMES or path.parent.name in NO_NAMES} == set()


def test_modules_say_what_they_are() -> None:
    silent = [name(path) for path in SOURCES if path.stat().st_size and ast.get_docstring(tree(path)) is None]
    assert silent == []
