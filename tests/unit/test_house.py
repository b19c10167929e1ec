"""The rules of the house, read from the source itself: who imports whom, budgets, what is never written."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import mtkit

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mtkit"
FILES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [*FILES, *sorted((ROOT / "data").rglob("*.py"))]

# room -> what it may import; errors, files, hardware and lock are open to all, and a room to itself
SCIENCE = {"text", "corpus", "layers", "models", "training", "search", "translate", "evaluation", "plot", "fetch"}
RECIPE = {"recipe", "assemble"}
PROGRAMS = {"pipeline", "bench", "describe", "study", "export", "compress", "serve"}
TABLE: dict[str, set[str]] = {
    "errors": set(),
    "files": set(),
    "hardware": set(),
    "lock": set(),
    "text": set(),
    "corpus": {"text"},
    "layers": set(),
    "models": {"layers", "corpus.batch"},
    "training": {"models", "corpus"},
    "search": set(),
    "translate": {"search", "models", "corpus", "text"},
    "evaluation": {"text"},
    "plot": {"text"},
    "fetch": {"text"},
    "recipe": SCIENCE,
    "assemble": SCIENCE | {"recipe"},
    **dict.fromkeys(PROGRAMS, SCIENCE | RECIPE),
    "study": SCIENCE | RECIPE | {"pipeline"},  # its runs are ordinary ones
    "cli": SCIENCE | RECIPE | PROGRAMS,
    "__main__": {"cli"},
    "__init__": SCIENCE | RECIPE | PROGRAMS,
}
# files beside the packages that belong to a room
ROOM_OF = {
    "known_corpora": "fetch",
    "generation": "assemble",
    "beginnings": "assemble",
    "model_folder": "assemble",
    "validator": "assemble",
    "exported_model": "assemble",
    "undrawn": "assemble",
}
OPEN_TO_ALL = {"errors", "files", "hardware", "lock", "__init__"}  # of mtkit itself only __version__, by the test below

MOST_LINES = 300
MOST_FUNCTION_LINES = 50
MOST_NESTING = 3
MOST_PARAMETERS = 8
NO_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
DEEPER = ast.If | ast.For | ast.While | ast.With | ast.Try | ast.Match | ast.AsyncFor | ast.AsyncWith
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, FUNCTION))


def room_of(module: str) -> str:
    first = module.split(".")[0]
    return ROOM_OF.get(first, first)


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module below mtkit) of every import of ours, also those inside functions."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "mtkit")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}:{node.lineno}: a relative import"
            if node.module == "mtkit":
                yield from ((node.lineno, f"mtkit.{alias.name}") for alias in node.names)
            elif node.module is not None and node.module.startswith("mtkit."):
                yield node.lineno, node.module


def forbidden_imports(path: Path) -> Iterator[str]:
    here = room_of(path.relative_to(PACKAGE).with_suffix("").parts[0])
    assert here in TABLE, f"{name(path)}: a room that the table does not know"
    for line, full in imported(path):
        module = "__init__" if full == "mtkit.__version__" else full.removeprefix("mtkit.")
        room = room_of(module)
        allowed = TABLE[here] | OPEN_TO_ALL | {here}
        if room not in allowed and not any(module == each or module.startswith(f"{each}.") for each in allowed):
            yield f"{name(path)}:{line}: {here} may not import {full}"


def test_imports_follow_the_table() -> None:
    assert [fault for path in FILES for fault in forbidden_imports(path)] == []


def test_files_are_short() -> None:
    sources = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py"))]
    lengths = {name(path): path.read_text(encoding="utf-8").count("\n") for path in sources}
    assert {file: length for file, length in lengths.items() if length > MOST_LINES} == {}


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines without the docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None and first.end_lineno is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def nesting(node: ast.AST, depth: int = 0) -> int:
    """How deep blocks stand in blocks; an `elif` is no deeper than its `if`, and a function inside begins anew."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTION | ast.ClassDef | ast.Lambda):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        step = isinstance(child, DEEPER) and not is_elif
        deepest = max(deepest, nesting(child, depth + step))
    return deepest


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([argument for argument in every if argument.arg not in ("self", "cls")])


def is_command(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return path.parent == PACKAGE / "cli" and function.name == path.stem


def test_functions_are_short_flat_and_take_few_parameters() -> None:
    faults = []
    for path in SOURCES:
        for function in functions(path):
            place = f"{name(path)}:{function.lineno}: {function.name}"
            if length(function) > MOST_FUNCTION_LINES and not is_command(path, function):
                faults.append(f"{place}: {length(function)} lines")
            if nesting(function) > MOST_NESTING:
                faults.append(f"{place}: nesting {nesting(function)}")
            if parameters(function) > MOST_PARAMETERS and not is_command(path, function):
                faults.append(f"{place}: {parameters(function)} parameters")
    assert faults == []


def faults_of_node(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(attr="splitlines"):
            yield "splitlines splits on ten characters"
        case ast.Import(names=names) if any(alias.name.split(".")[0] in ("pickle", "dill") for alias in names):
            yield "pickle"
        case ast.ImportFrom(module="pickle" | "dill"):
            yield "pickle"
        case ast.Attribute(value=ast.Name(id="torch"), attr="load" | "save" as what):
            yield f"torch.{what} is pickle; use safetensors"
        case ast.Call(func=ast.Name(id="eval" | "exec" as what)):
            yield what
        case ast.Call(func=ast.Name(id="getattr"), args=[_, _, _]):
            yield "getattr with a default"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="cfg" | "config"), attr="get")):
            yield "a configuration is not asked whether a key exists"
        case ast.ExceptHandler(type=None):
            yield "a bare except"
        case ast.ExceptHandler(type=ast.Name(id="Exception")):
            yield "except Exception"
        case ast.Assert():
            yield "assert is for tests"
        case ast.ImportFrom(names=names) if any(alias.name == "*" for alias in names):
            yield "import *"


def test_nothing_forbidden_is_written() -> None:
    found = [
        f"{name(path)}:{node.lineno}: {fault}"  # type: ignore[attr-defined]
        for path in SOURCES
        for node in ast.walk(tree(path))
        for fault in faults_of_node(node)
    ]
    assert found == []


def test_nothing_is_left_to_do() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "X" * 3)
    sources = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "recipes").rglob("*.yaml"))]
    found = {name(path) for path in sources if any(mark in path.read_text(encoding="utf-8") for mark in marks)}
    assert found == set()


def test_every_file_has_a_concept_for_a_name() -> None:
    sources = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py"))]
    assert {name(path) for path in sources if path.stem in NO_NAMES or path.parent.name in NO_NAMES} == set()


def test_modules_say_what_they_are() -> None:
    silent = [name(path) for path in SOURCES if path.stat().st_size and ast.get_docstring(tree(path)) is None]
    assert silent == []


def test_public_names() -> None:
    assert sorted(mtkit.__all__) == [
        "MtkitError",
        "Recipe",
        "Report",
        "Scores",
        "Translation",
        "Translator",
        "__version__",
        "evaluate",
        "evaluate_run",
        "load_model",
        "load_recipe",
        "run",
        "train",
    ]


@pytest.mark.parametrize("public", sorted(mtkit.__all__))
def test_public_names_are_there(public: str) -> None:
    assert getattr(mtkit, public).__doc__ or public == "__version__"


def test_no_public_name_is_that_of_a_module() -> None:
    modules = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in FILES}
    assert modules & set(mtkit.__all__) == set()


def test_unknown_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = mtkit.nonsense


def test_rooms() -> None:
    for folder in ("text", "corpus", "layers", "models", "training", "search", "evaluation", "plot", "cli"):
        assert (PACKAGE / folder / "__init__.py").is_file()
    for folder in ("unit", "parity", "e2e", "benchmarks"):
        assert (ROOT / "tests" / folder).is_dir()
    tops = {Path(file).parts[0] for file in tracked() if len(Path(file).parts) > 1}
    assert tops <= {"mtkit", "tests", "recipes", "data", ".ci"}


def tracked() -> list[str]:
    """What git knows; nothing where the tests run from an unpacked archive."""
    if not (ROOT / ".git").exists():
        return []
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True, text=True)
    return [file for file in listed.stdout.split("\0") if file]


def test_changelog_has_a_place_for_what_is_new() -> None:
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().split("\n") if line.startswith("## ")]
    assert headings[0] == "## Unreleased"


def test_version_is_stated_once_more_only_in_the_package() -> None:
    assert f'version = "{mtkit.__version__}"' in (ROOT / "pyproject.toml").read_text()
