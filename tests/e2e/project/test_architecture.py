"""docs/architecture.md is what happens: the routes run under a tracer, and every path and name in it exists."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml

from mtkit.cli.entry import execute
from mtkit.native.library import native
from mtkit.recipe.defaults.choose import Draft
from mtkit.recipe.located import LocatedValue
from mtkit.recipe.sections import Recipe
from tests.toy.runs import MODELS, write_all

ROOT = Path(__file__).parents[3]
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
        file = own_file(frame)
        if event == "call" and file is not None:
            call = (file, frame.f_code.co_qualname)
            self.calls.append(call)
            if call == self.watched and not self.stack_files:
                self.stack_files = package_files(frame)


def package_files(frame: FrameType | None) -> set[str]:
    return {file for each in frames(frame) if (file := own_file(each))}


def frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def own_file(frame: FrameType) -> str | None:
    file = frame.f_code.co_filename
    return file.removeprefix(f"{PACKAGE}/") if file.startswith(f"{PACKAGE}/") else None


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


@pytest.mark.whole
def test_training_and_translation_are_followed(trace: Callable[..., Tracer], tmp_path: Path) -> None:
    training, translation = hops("Training"), hops("Translation")
    assert 10 < len(training) <= MAX_HOPS
    assert 10 < len(translation) <= MAX_HOPS

    train = ("train", "toy.yaml", f"model={MODELS['transformer']}", "--run-dir", "run")
    traced = trace(*train, watched=("training/loop.py", "train"))
    follow(traced.calls, training)
    assert 0 < len(traced.stack_files) <= 15  # files between the command line and the first line of the loop

    (tmp_path / "input").write_text("the dog sees the small cat\n")
    translate = ("translate", "run", "input", "--beam-size", "3", "--workers", "1")
    follow(trace(*translate, "--no-rewrite").calls, translation)
    if native().functions is not None:
        follow(trace(*translate).calls, hops("Native library"))


class ContentTracer(Tracer):
    """Record also, until the first update, the files that values of a recipe come into, and those that make them.

    Attributes:
        entered: file of each call, from another file, that gets a recipe or a part of its tree, or returns one.
        makers: files whose functions construct one.
    """

    CONTENT = (Recipe, LocatedValue, Draft)

    def __init__(self) -> None:
        super().__init__()
        self.entered: list[str] = []
        self.makers: set[str] = set()
        self.frames: list[FrameType] = []  # a generator's frame is called again for each value

    def profile(self, frame: FrameType, event: str, result: Any) -> None:
        super().profile(frame, event, result)
        if self.calls[-1:] == [("training/loop.py", "train")]:
            self.frames, self.content = [], lambda *_: None  # type: ignore[method-assign]
        if event in ("call", "return") and frame.f_back is not None:
            self.content(frame, frame.f_back, event, result)

    def content(self, frame: FrameType, caller: FrameType, event: str, result: Any) -> None:
        code, file = frame.f_code, own_file(frame)
        if isinstance(frame.f_locals.get("self"), self.CONTENT):
            if code.co_name == "__init__" and event == "call":
                self.makers.add(next(name for each in frames(caller) if (name := own_file(each))))
            return  # other methods are accessors
        if file is None or caller.f_code.co_filename == code.co_filename:
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        values = [frame.f_locals.get(name) for name in names] if event == "call" else [result]
        if any(isinstance(value, self.CONTENT) for value in values) and frame not in self.frames:
            self.frames.append(frame)
            self.entered.append(file)


@pytest.mark.whole
@pytest.mark.parametrize("defaults", ["fixed", "corpus"])
def test_a_recipe_is_read_chosen_and_checked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defaults: str
) -> None:
    """Its route is followed, each file of it is entered once, and no other file makes a value of the recipe."""
    route = hops("Recipe")
    files = [file for file, _ in route]
    assert len(files) == len(set(files)) <= 8
    write_all(tmp_path)
    monkeypatch.chdir(tmp_path)
    recipe = yaml.safe_load((tmp_path / "toy.yaml").read_text())
    recipe |= {"model": yaml.safe_load(MODELS["transformer"]), "defaults": defaults}
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(recipe))
    with ContentTracer() as tracer:
        assert execute(["train", "toy.yaml", "--run-dir", "run"]) == 0
    follow(tracer.calls[: tracer.calls.index(("training/loop.py", "train"))], route)
    assert {file: tracer.entered.count(file) for file in files} == dict.fromkeys(files, 1)
    assert tracer.makers <= set(files)


def test_a_wrong_order_is_noticed() -> None:
    calls = [("a.py", "f"), ("b.py", "g"), ("a.py", "f")]
    follow(calls, [("b.py", "g"), ("a.py", "f")])
    with pytest.raises(AssertionError, match="hop 2"):
        follow(calls, [("b.py", "g"), ("b.py", "g")])


DOCUMENTS = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    paths = set(re.findall(r"`([\w/.-]+(?:\.py|\.md|\.yaml|/))`", text)) | set(re.findall(r"\]\(([\w/.-]+)\)", text))
    made_by_runs = re.compile(r"(runs|model|tokenizer|tensorboard|wandb|mlflow)/|(recipe|finetune)\.yaml$")
    places = (ROOT, PACKAGE, (ROOT / document).parent)
    missing = {p for p in paths if not made_by_runs.match(p) and not any((place / p).exists() for place in places)}
    assert missing == set()


def test_each_file_of_the_native_library_is_described() -> None:
    assert [path.name for path in (PACKAGE / "native" / "c").glob("*.c") if f"`native/c/{path.name}`" not in TEXT] == []


def test_names_beside_their_files_exist() -> None:
    rows = re.findall(r"^\|.*\|$", TEXT, re.MULTILINE)
    named = [pair for row in rows for pair in re.findall(r"`(\w+)` in `([\w/]+\.py)`", row)]
    named += [(name, file) for first, name, file in re.findall(r"`(\w+)` and `(\w+)` in `([\w/]+\.py)`", TEXT)]
    assert len(named) > 5
    for name, file in named:
        module = importlib.import_module("mtkit." + file.removesuffix(".py").replace("/", "."))
        assert name in vars(module), f"{file} has no {name}"
