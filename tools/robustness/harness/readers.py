"""Fuzzing of the functions that read files: random and changed content gives a value or an `MtkitError`."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.store import Store
from mtkit.errors import MtkitError
from mtkit.model_folder.folder import read_metadata, read_model
from mtkit.pipeline.run_folder import RunFolder
from mtkit.plot.curves import read_curves
from mtkit.recipe.recipe import load_recipe
from mtkit.text.lines import count_lines, read_lines
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.training.checkpoints.checkpoint import read_checkpoint
from mtkit.training.checkpoints.tensor_file import read_tensors
from mtkit.translate.lines import with_constraints

EXAMPLES = 20  # between two looks at the clock
SETTINGS = settings(
    max_examples=EXAMPLES, database=None, deadline=None, phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """A function that reads a file.

    Attributes:
        file: the file, in the folder of an undisturbed run.
        read: called with the folder of the file after each change.
    """

    file: str
    read: Callable[[Path], Any]


def _constraints(folder: Path) -> list[Any]:
    return list(with_constraints(["a", "b"], folder / "constraints"))


def _whole_model(folder: Path) -> Any:
    return read_model(folder).metadata


def _records(folder: Path) -> Any:
    run = RunFolder(folder)
    return run.read_report(), run.read_fingerprints(), run.check_format()


def _lines(path: Path) -> Any:
    return count_lines(path), list(read_lines(path))


READERS = {
    "recipe": Reader("recipe.yaml", lambda folder: load_recipe(str(folder / "recipe.yaml"), [])),
    "config.json": Reader("model/config.json", read_metadata),
    "model folder": Reader("model/config.json", _whole_model),
    "report.json": Reader("report.json", _records),
    "fingerprints.json": Reader("fingerprints.json", _records),
    "version.json": Reader("version.json", _records),
    "safetensors": Reader("model/model.safetensors", lambda folder: read_tensors(folder / "model.safetensors")),
    "sentencepiece": Reader("model/spm.model", lambda folder: Tokenizer.load(folder / "spm.model").encode(["a dog"])),
    "corpus manifest": Reader("corpus/valid/manifest.json", lambda folder: Store(folder).verify()),
    "corpus column": Reader("corpus/valid/src.ids.offsets.bin", lambda folder: Store(folder).verify()),
    "checkpoint": Reader("checkpoints/update-00000006/manifest.json", read_checkpoint),
    "checkpoint state": Reader("checkpoints/update-00000006/state.json", read_checkpoint),
    "lexicon": Reader("corpus/lexicon.safetensors", lambda folder: Lexicon.load(folder / "lexicon.safetensors")),
    "constraints": Reader("constraints", _constraints),
    "log": Reader("log.jsonl", lambda folder: read_curves(folder / "log.jsonl", "run")),
    "text": Reader("hyps/tiny.txt", lambda folder: _lines(folder / "tiny.txt")),
}
SNIPPETS = [b"\x00", b"\xff", b'"', b"{}", b"[" * 2000, b"null", b"-1", b"1e999", b"9" * 5000, b"\n", b": ", b"&a",
            b"*a", b"\\ud800", b"NaN", b"\xef\xbb\xbf", b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"]  # fmt: skip
PIECE = st.one_of(st.binary(max_size=8), st.sampled_from(SNIPPETS))
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECE), min_size=1, max_size=4)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=8,
)


def edited(content: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """Replace some bytes at relative positions."""
    for position, length, piece in edits:
        start = int(position * len(content))
        content = content[:start] + piece + content[start + length :]
    return content


def _set_value(content: bytes, choice: float, value: Any) -> bytes:
    """Replace one value of a JSON object at any depth."""
    whole = json.loads(content)
    places = _places(whole)
    parent, key = places[min(int(choice * len(places)), len(places) - 1)]
    parent[key] = value
    return json.dumps(whole).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in items for place in ((value, key), *_places(item))]


def contents(valid: bytes, is_json: bool) -> st.SearchStrategy[bytes]:
    """Changed content of a file, or any bytes."""
    ways = [EDITS.map(lambda edits: edited(valid, edits)), st.binary(max_size=200)]
    if is_json:
        ways.append(st.tuples(st.floats(0, 1), JSON).map(lambda change: _set_value(valid, *change)))
        ways.append(JSON.map(lambda value: json.dumps(value).encode()))
    return st.one_of(*ways)


def fuzz(name: str, run: str, start: str, seconds: str) -> int:
    """Fuzz a reader for some seconds; print the number of examples, or the content that broke a promise."""
    reader = READERS[name]
    path = Path(run, reader.file)
    if name == "constraints":
        path.write_text('{"prefix": "a", "include": ["b"], "exclude": []}\n\n')
    valid = path.read_bytes()
    examples = 0

    def check(content: bytes) -> None:
        nonlocal examples
        examples += 1
        path.write_bytes(content)
        try:
            reader.read(path.parent)
        except MtkitError:
            pass
        except BaseException as error:
            text = base64.b64encode(content[:4000]).decode()
            raise AssertionError(f"{type(error).__name__}: {error}; base64 of the content: {text}") from error

    end, number = time.monotonic() + float(seconds), int(start)
    while time.monotonic() < end:
        number += 1
        test = SETTINGS(given(contents(valid, path.suffix == ".json"))(check))
        try:
            seed(number)(test)()
        except AssertionError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    sys.stdout.write(f"{examples}\n")
    return 0
