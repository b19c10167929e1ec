"""Imports: each sub-package imports only those above it in the table, without cycles."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.unit.house.source_code import FILES, FUNCTION, PACKAGE, ROOT, module_of, name, tree

# sub-package -> the sub-packages that it may import; those in OPEN_TO_ALL and itself are always allowed
SCIENCE = {
    "text", "corpus", "native", "layers", "models", "search", "inference", "training", "translate", "evaluation", "plot"
}  # fmt: skip


FOLDERS = {"recipe", "model_folder"}  # what recipes and models are read from


PROGRAMS = {
    "pipeline", "bench", "describe", "analysis", "study", "export", "importers", "compression", "evidence", "finetuning"
}  # fmt: skip


TABLE: dict[str, set[str]] = {
    "errors": set(),
    "signals": set(),
    "hardware": set(),
    "display": set(),
    "io": set(),
    "config": set(),
    "text": set(),
    "documents": {"text"},
    "corpus": {"text", "documents.pair_lines", "documents.pairs"},  # parallel text of any form, as lines
    "native": set(),
    "layers": {"native"},
    "models": {"layers", "corpus.order.batch"},
    "search": set(),
    "inference": {"native", "layers", "models", "search", "corpus.order.batch"},
    "training": {"models", "corpus", "layers.matmul", "layers.native_kernels", "layers.projections"},
    # models are read from their folders, and overrides of their search settings by the rules of recipes
    "translate": {"search", "native", "inference", "models", "corpus", "text"}
    | {"documents.glossary", "model_folder", "recipe.tree", "evaluation"},
    "evaluation": {"text"},
    "plot": {"text", "evaluation"},
    "recipe": SCIENCE,
    "model_folder": SCIENCE | {"recipe"},
    **dict.fromkeys(PROGRAMS, SCIENCE | FOLDERS),
    "pipeline": SCIENCE | FOLDERS | {"documents", "analysis"},  # documents with pairs are checked, a sentence explained
    "export": SCIENCE | FOLDERS | {"importers"},  # names of weights and settings in both directions
    "bench": SCIENCE | FOLDERS | {"export"},  # the peer of a benchmark is CTranslate2 on an exported model
    "study": SCIENCE | FOLDERS | {"pipeline"},  # the runs of a study are ordinary runs
    "compression": SCIENCE | FOLDERS | {"analysis.head_statistics"},
    # a fine-tuning is an ordinary run, on pairs of documents
    "finetuning": SCIENCE | FOLDERS | {"pipeline", "documents"},
    # claims are tested by studies
    "evidence": SCIENCE
    | FOLDERS
    | {"pipeline", "study", "bench.machine", "compression.compress", "analysis.head_statistics"},
    "serve": {"documents"} | SCIENCE | FOLDERS,
    "cli": {"documents", "serve"} | SCIENCE | FOLDERS | PROGRAMS,
    "__main__": {"cli"},
    "__init__": SCIENCE | FOLDERS | PROGRAMS,
}


# `__init__` for __version__ alone, by a test below
OPEN_TO_ALL = {"errors", "signals", "hardware", "display", "io", "config", "__init__"}


def sub_package(module: str) -> str:
    return module.split(".")[0]


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
    here = sub_package(path.relative_to(PACKAGE).with_suffix("").parts[0])
    assert here in TABLE, f"{name(path)}: {here} is missing from the table of imports"
    for line, full in imported(path):
        module = "__init__" if full == "mtkit.__version__" else full.removeprefix("mtkit.")
        allowed = TABLE[here] | OPEN_TO_ALL | {here}
        if not any(module == each or module.startswith(f"{each}.") for each in allowed):
            yield f"{name(path)}:{line}: {here} may not import {full}"


def test_imports_follow_the_table() -> None:
    assert [fault for path in FILES for fault in forbidden_imports(path)] == []


def test_the_documented_order_is_that_of_the_imports() -> None:
    """docs/architecture.md lists each folder once, and each imports only those above it."""
    section = (ROOT / "docs" / "architecture.md").read_text().partition("\n## Sub-packages\n")[2]
    order = re.findall(r"^\| `(\w+)/` \|", section, re.MULTILINE)
    assert sorted(order) == sorted(
        {path.parent.relative_to(PACKAGE).parts[0] for path in FILES if path.parent != PACKAGE}
    )
    for path in FILES:
        here = sub_package(path.relative_to(PACKAGE).with_suffix("").parts[0])
        targets = {sub_package(full.removeprefix("mtkit.")) for _, full in imported(path)} & {*order}
        if here in order:
            assert not targets - {*order[: order.index(here) + 1]}, name(path)


def running(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a node, without what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"):
            yield child
            yield from running(child)


@cache
def import_graph() -> dict[str, set[str]]:
    """Module -> modules that it imports when it runs, also inside functions."""
    modules = {module_of(path) for path in FILES}
    graph: dict[str, set[str]] = {}
    for path in FILES:
        imports: set[str] = set()
        for node in running(tree(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mtkit":
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                imports |= (names & modules) or {str(node.module)}
            elif isinstance(node, ast.Import):
                imports |= {alias.name for alias in node.names} & modules
        graph[module_of(path)] = imports - {"mtkit"}  # of mtkit itself only __version__ is imported
    return graph


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one import cycle, or an empty list."""
    done: set[str] = set()

    def visit(module: str, way: list[str]) -> list[str]:
        if module in way:
            return [*way[way.index(module) :], module]
        if module in done:
            return []
        for each in sorted(graph.get(module, ())):
            if circle := visit(each, [*way, module]):
                return circle
        done.add(module)
        return []

    return next((circle for module in sorted(graph) if (circle := visit(module, []))), [])


def test_imports_have_no_cycle() -> None:
    assert cycle(import_graph()) == []


def test_a_cycle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}) == ["a", "b", "c", "a"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_packages_import_nothing() -> None:
    """A folder's __init__ runs before its modules: imports of its own would make cycles that no graph shows."""
    busy = [name(path) for path in FILES if path.stem == "__init__" and import_graph()[module_of(path)]]
    assert [each for each in busy if each not in ("mtkit/__init__.py", "mtkit/cli/__init__.py")] == []


def test_folders_are_the_known_ones() -> None:
    assert {path.parent.relative_to(PACKAGE).parts[0] for path in FILES if path.parent != PACKAGE} <= set(TABLE)


@cache
def names_of(module: str) -> set[str]:
    """Names that stand in a module outside of its functions and classes."""
    found: set[str] = set()
    pending: list[ast.AST] = [tree(path) for path in FILES if module_of(path) == module]
    while pending:
        node = pending.pop()
        if isinstance(node, FUNCTION | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        else:
            found |= {node.id} if isinstance(node, ast.Name) else set()
            pending += ast.iter_child_nodes(node)
    return found


def names_used(path: Path) -> Iterator[tuple[str, str]]:
    """(module of mtkit, name in it) that a program imports, or reads from a module that it imports."""
    modules = {module_of(each) for each in FILES}
    aliases: dict[str, str] = {}  # of modules
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("mtkit."):
            for alias in node.names:
                if (module := f"{node.module}.{alias.name}") in modules:
                    aliases[alias.asname or alias.name] = module
                else:
                    yield str(node.module), alias.name
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            yield aliases[node.value.id], node.attr


def test_tools_use_names_that_exist() -> None:
    """Neither mypy nor a test reads most of them."""
    used = {(name(path), *each) for path in (ROOT / "tools").rglob("*.py") for each in names_used(path)}
    assert len(used) > 100
    assert [each for each in sorted(used) if each[2] not in names_of(each[1])] == []


# modules whose packages have other names
PACKAGES = {"yaml": "pyyaml", "markdown-it": "markdown-it-py"}


def third_party(path: Path) -> set[str]:
    """Packages outside the standard library that a file imports, or looks for by name."""
    modules: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules.add(str(node.module))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("find_spec", "import_module")):
            modules |= {each.value for each in node.args if isinstance(each, ast.Constant)}
    tops = {module.partition(".")[0] for module in modules} - set(sys.stdlib_module_names) - {"mtkit"}
    return {PACKAGES.get(top.replace("_", "-"), top.replace("_", "-")) for top in tops}


def declared() -> dict[str, str]:
    """Packages of pyproject.toml, the core's and those of the extras of users, with their bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for name, packages in project["optional-dependencies"].items() if name != "dev" for each in packages]
    matches = (re.match(r"[\w.-]+", each) for each in (*extras, *project["dependencies"]))
    return {match[0].replace("_", "-"): match.string[match.end() :] for match in matches if match}


def test_every_package_that_is_imported_is_declared() -> None:
    undeclared = {(name(path), package) for path in FILES for package in third_party(path) - set(declared())}
    assert undeclared == set()


def test_packages_whose_private_parts_are_used_have_upper_bounds() -> None:
    for package in ("sacrebleu", "uvicorn"):
        assert "<" in declared()[package]
    assert not [path for path in FILES if "_TYPER_" in path.read_text()]


NETWORK = ("http.client", "urllib.request", "ssl", "huggingface_hub", "requests", "httpx", "aiohttp")


def test_connections_are_opened_where_security_says() -> None:
    """Four commands open them; the server listens, trainings meet on their own network."""
    opening = {
        name(path)
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if module is not None and module.startswith(NETWORK)
    }
    names = ("importers/foreign_folder.py", "io/fetch.py", "export/push.py", "translate/teachers.py")
    assert opening == {f"mtkit/{each}" for each in names}
    users = {name(path) for path in FILES if re.search(r"from mtkit\.io(\.fetch| import .*fetch)", path.read_text())}
    assert users == {"mtkit/cli/commands/text/fetch.py", "mtkit/text/corpora.py"}
    assert {name(path) for path in FILES if re.search(r"\bfound\.fetch\(", path.read_text())} == {
        "mtkit/cli/commands/text/fetch.py"
    }
    text = (ROOT / "SECURITY.md").read_text()
    assert "`mtkit fetch`" in text
    assert "`mtkit push`" in text
    assert "`mtkit backtranslate --teacher-url`" in text
    assert "`mtkit import ORGANISATION/NAME`" in text
