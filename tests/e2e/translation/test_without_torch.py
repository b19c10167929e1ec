"""Translation and scoring of models that the fast road takes import no torch, in no process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from mtkit.cli import entry
from mtkit.models.transformer.config import TransformerConfig
from mtkit.native.library import native
from tests.toy.sampling import sampled

CONFIG = TransformerConfig(d_model=32, d_ff=64, num_heads=4, encoder_layers=2, decoder_layers=2)
COMPRESSIONS = ["int8", "int4", "heads", "half-depth"]

pytestmark = pytest.mark.skipif(native().functions is None, reason=native().reason)


def imported(*words: str) -> set[str]:
    """The packages that a command and its worker processes import."""
    command = [sys.executable, "-X", "importtime", "-m", "mtkit", *words]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return set(re.findall(r"^import time:.*\| +(\w+)", result.stderr, re.MULTILINE))


@pytest.fixture
def model(toy_model: Callable[[Any], Path]) -> Path:
    return toy_model(CONFIG)


@pytest.mark.parametrize(
    "options",
    ["", "--beam-size 1", "--jsonl", "--workers 2", "--sample 1 --n-best 2", "--target-prefix a"],
)
def test_translate(options: str, model: Path, text: Path) -> None:
    packages = imported("translate", str(model), str(text), *options.split())
    assert {"numpy", "sentencepiece"} <= packages
    assert not packages & {"torch", "scipy", "sacrebleu", "py3langid", "rich", "safetensors"}
    assert ("yaml" in packages) == ("--sample" in options)  # values of search that are no integers are read as YAML


def normalised(distribution: str) -> str:
    return distribution.lower().replace("_", "-")


def with_requirements(distribution: str) -> set[str]:
    """A distribution and all that pip installs with it."""
    needed = {normalised(distribution)}
    for requirement in metadata.requires(distribution) or []:
        name = re.match(r"[\w.-]+", requirement)
        if name is not None and "extra ==" not in requirement and "platform_system" not in requirement:
            with suppress(metadata.PackageNotFoundError):  # for another Python
                needed |= with_requirements(name[0])
    return needed


@pytest.mark.whole
def test_the_documented_packages_suffice(model: Path, text: Path) -> None:
    document = (Path(__file__).parents[3] / "docs" / "translation.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^pip install ((?!--)[\w ]+)$", document, re.MULTILINE)
    allowed = {"mtkit", "setuptools"}.union(*map(with_requirements, listed.split()))  # pip's files name setuptools
    by_package = metadata.packages_distributions()
    src = str(text)
    for words in (["translate", str(model), src, "--jsonl"], ["score", str(model), "--src", src, "--ref", src]):
        needed = {normalised(each) for name in imported(*words) for each in by_package.get(name, [])}
        assert needed <= allowed


def test_what_runs_as_written_imports_torch(model: Path, text: Path) -> None:
    assert "torch" in imported("translate", str(model), str(text), "--no-rewrite")


def test_score(model: Path, text: Path) -> None:
    assert "torch" not in imported("score", str(model), "--src", str(text), "--ref", str(text))


@pytest.mark.whole
@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_compressed_models(kind: str, model: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = text.parent / kind
    options = ["--src", str(text), "--ref", str(text)] if kind == "heads" else []
    assert entry.execute(["compress", str(model), "--to", kind, "-o", str(small), *options]) == 0
    capsys.readouterr()
    assert "torch" not in imported("translate", str(small), str(text))
    for rewrite in ([], ["--no-rewrite"]):
        assert entry.execute(["translate", str(small), str(text), "--compute-type", "float32", *rewrite]) == 0
    lines = capsys.readouterr().out.split("\n")[:-1]
    assert lines[: len(lines) // 2] == lines[len(lines) // 2 :]


FORK = """
import os, random, sys, threading
import mtkit
model = mtkit.load_model(sys.argv[1], search_overrides=["beam_size=3"], threads=2)
words = "the a dog cat sees hears bird".split()
rng = random.Random(7)
texts = [[" ".join(rng.choices(words, k=rng.randint(1, 8))) for _ in range(rng.choice([1, 2, 20]))] for _ in range(5)]
expected = [model.translate_lines(lines) for lines in texts]

def fork_and_translate(number):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if model.translate_lines(texts[number % 5]) == expected[number % 5] else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

codes = []
copies = int(sys.argv[2])
for number in range(copies):
    fork_and_translate(number)
for number in range(copies // 4):  # as servers do
    thread = threading.Thread(target=fork_and_translate, args=[number])
    thread.start()
    thread.join()
print(codes.count(0), "torch" in sys.modules)
"""


@pytest.mark.whole
@pytest.mark.parametrize(
    ("native_library", "copies"),
    [("1", sampled(160)), pytest.param("0", 1, marks=pytest.mark.whole)],
    ids=["fast", "as written"],
)
def test_copies_of_a_process_that_has_translated_with_threads_translate(
    native_library: str, copies: int, model: Path
) -> None:
    variables = {**os.environ, "MTKIT_NATIVE": native_library, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", FORK, str(model), str(copies)]
    result = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=300, check=False)
    assert (result.stdout, result.stderr) == (f"{copies + copies // 4} {native_library == '0'}\n", "")
