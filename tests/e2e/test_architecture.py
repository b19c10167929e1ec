"""docs/architecture.md is what happens: both routes run under a tracer, and every path and name in it exists."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mtkit.cli.entry import execute
from tests.toy.runs import MODELS, write_all

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mtkit"
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MAX_HOPS = 20
HOP = re.compile(r"^\| \d+ \| `([^`]+)` \| `([^`]+)` \|", re.MULTILINE)

Call = tuple[str, str]  # file below mtkit/, qualified name of the function


def hops(heading: str) -> list[Call]:
    section = TEXT[TEXT.index(f"## {heading}") :]
    return [(file, function) for file, function in HOP.findall(section.partition("\n## ")[0])]


class Tracer:
    """Record the calls of functions of the package by all threads, in order, and the call stack of one of them."""

    def __init__(self, watched: Call = ("", "")) -> None:
        self.calls: list[Call] = []
        self.watched = watched
        self.stack_files: set[str] = set()

    def __enter__(self) -> Tracer:
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(f"{PACKAGE}/"):
            call = (file.removeprefix(f"{PACKAGE}/"), frame.f_code.co_qualname)
            self.calls.append(call)
            if call == self.watched and not self.stack_files:
                self.stack_files = package_files(frame)


def package_files(frame: FrameType | None) -> set[str]:
    files = set()
    while frame is not None:
        files.add(frame.f_code.co_filename)
        frame = frame.f_back
    return {file for file in files if file.startswith(f"{PACKAGE}/")}


def follow(calls: list[Call], route: list[Call]) -> None:
    """Check that the hops of a route occur in this order."""
    place = 0
    for number, hop in enumerate(route, start=1):
        assert hop in calls[place:], f"hop {number}, {hop[0]} {hop[1]}, is not called after hop {number - 1}"
        place = calls.index(hop, place) + 1


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Tracer]:
    """Run a command on the toy corpus under a tracer."""
    write_all(tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(*words: str, watched: Call = ("", "")) -> Tracer:
        with Tracer(watched) as tracer:
            assert execute([*words]) == 0
        return tracer

    return run


def test_both_routes_are_followed(trace: Callable[..., Tracer], tmp_path: Path) -> None:
    training, translation = hops("Training"), hops("Translation")
    assert 10 < len(training) <= MAX_HOPS
    assert 10 < len(translation) <= MAX_HOPS

    train = ("train", "toy.yaml", f"model={MODELS['transformer']}", "--run-dir", "run")
    traced = trace(*train, watched=("training/loop.py", "train"))
    follow(traced.calls, training)
    assert 0 < len(traced.stack_files) <= 15  # files between the command line and the first line of the loop

    (tmp_path / "input").write_text("the dog sees the small cat\n")
    translate = ("translate", "run", "input", "--beam-size", "3", "--workers", "1", "--no-rewrite")
    follow(trace(*translate).calls, translation)


def test_a_wrong_order_is_noticed() -> None:
    calls = [("a.py", "f"), ("b.py", "g"), ("a.py", "f")]
    follow(calls, [("b.py", "g"), ("a.py", "f")])
    with pytest.raises(AssertionError, match="hop 2"):
        follow(calls, [("b.py", "g"), ("b.py", "g")])


DOCUMENTS = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    paths = set(re.findall(r"`([\w/.-]+(?:\.py|\.md|\.yaml|/))`", text)) | set(re.findall(r"\]\(([\w/.-]+)\)", text))
    made_by_runs = re.compile(r"(runs|model|tokenizer|tensorboard|wandb|mlflow)/|recipe\.yaml$")
    places = (ROOT, PACKAGE, ROOT / "docs")
    missing = {p for p in paths if not made_by_runs.match(p) and not any((place / p).exists() for place in places)}
    assert missing == set()


def test_names_beside_their_files_exist() -> None:
    rows = re.findall(r"^\|.*\|$", TEXT, re.MULTILINE)
    named = [pair for row in rows for pair in re.findall(r"`(\w+)` in `([\w/]+\.py)`", row)]
    named += [(name, file) for first, name, file in re.findall(r"`(\w+)` and `(\w+)` in `([\w/]+\.py)`", TEXT)]
    assert len(named) > 5
    for name, file in named:
        module = importlib.import_module("mtkit." + file.removesuffix(".py").replace("/", "."))
        assert name in vars(module), f"{file} has no {name}"
