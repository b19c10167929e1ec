"""Input that would take minutes, block or exhaust the memory is refused at once, with one sentence."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.errors import MissingInputError
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.transformer.config import TransformerConfig
from mtkit.pipeline.prepare_corpus import MAX_LISTED, check_existing_inputs
from mtkit.recipe.recipe import load_recipe
from mtkit.text import lines
from tests.toy.runs import MODELS, write_all

Run = Callable[..., tuple[int, str]]
SMALL = TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a corpus and a recipe."""
    write_all(tmp_path)
    with (tmp_path / "toy.yaml").open("a") as recipe:
        recipe.write(f"model: {MODELS['transformer']}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line; returns exit code and stderr."""

    def execute(*words: str) -> tuple[int, str]:
        code = entry.execute(words)
        return code, capsys.readouterr().err

    return execute


@pytest.fixture
def constrained(
    run: Run, folder: Path, toy_model: Callable[[ModelConfigBase], Path]
) -> Callable[[dict[str, object]], tuple[int, str]]:
    """Translate a line with constraints."""
    model = toy_model(SMALL)

    def translate(constraints: dict[str, object]) -> tuple[int, str]:
        (folder / "line").write_text("the dog sees the cat\n")
        (folder / "constraints").write_text(json.dumps(constraints) + "\n")
        return run("translate", str(model), "line", "--constraints", "constraints", "-o", os.devnull)

    return translate


def test_constraints_that_would_take_minutes(constrained: Callable[[dict[str, object]], tuple[int, str]]) -> None:
    cases: tuple[tuple[dict[str, object], str], ...] = (
        ({"include": ["the dog " * 2_000]}, "tokens in include; the maximum is 200"),
        ({"include": ["dog"] * 2_000}, "tokens in include; the maximum is 200"),
        ({"prefix": "the dog " * 2_000}, "tokens in prefix; the maximum is 500"),
        ({"exclude": ["dog"] * 201}, "201 texts in exclude; the maximum is 200"),
    )
    for constraints, expected in cases:
        code, err = constrained(constraints)
        assert (code, err.count("\n")) == (65, 1)
        assert expected in err


def test_long_texts_of_constraints_are_quoted_in_part(
    constrained: Callable[[dict[str, object]], tuple[int, str]],
) -> None:
    for constraints in ({"include": ["\u4e2d" * 5_000]}, {"include": ["dog " * 5_000], "exclude": ["dog"]}):
        code, err = constrained(constraints)
        assert code == 65
        assert len(err) < 300


@pytest.mark.parametrize("name", ["toy.yaml", "train.en", "valid.de"])
@pytest.mark.parametrize("stream", ["pipe", "device"])
def test_a_pipe_or_device_as_recipe_or_corpus(run: Run, folder: Path, name: str, stream: str) -> None:
    (folder / name).unlink()
    if stream == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("/dev/zero")
    for command in ("run", "preprocess", "train"):
        code, err = run(command, "toy.yaml")
        assert code == 66
        assert f"{name}: a pipe or device" in err or "/dev/zero: a pipe or device" in err


def test_a_base_that_is_a_pipe(run: Run, folder: Path) -> None:
    os.mkfifo(folder / "base.yaml")
    (folder / "top.yaml").write_text("base: base.yaml\n")
    assert run("train", "top.yaml")[0] == 66


def test_word_vectors_from_a_pipe(run: Run, folder: Path) -> None:
    os.mkfifo(folder / "vectors")
    code, err = run("train", "toy.yaml", "training.word_vectors.src=vectors")
    assert code == 66
    assert "vectors: a pipe or device" in err


def test_a_line_without_end(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, toy_model: Callable[[ModelConfigBase], Path]
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1 << 20)
    (folder / "endless").write_bytes(bytes(3 << 20))
    code, err = run("translate", str(toy_model(SMALL)), "endless")
    assert code == 65
    assert "endless:1: a line of more than 1 MiB" in err


@pytest.mark.parametrize("command", ["run", "train"])
def test_a_dry_run_without_a_part_of_the_corpus(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.de").rename(folder / "away")
    assert entry.execute([command, "toy.yaml", "--dry-run"]) == 66
    captured = capsys.readouterr()
    assert "parameters" in captured.out
    assert captured.err == f"mtkit: error: {folder}/train.de: no such file\n"
    (folder / "away").rename(folder / "train.de")
    (folder / "elsewhere").mkdir()
    for text in folder.glob("*.??"):
        text.rename(folder / "elsewhere" / text.name)
    assert entry.execute([command, "toy.yaml", "--dry-run"]) == 0  # no corpus at all: not fetched yet
    assert f"no text file of the recipe exists, such as {folder}/train.en\n" in capsys.readouterr().err
    moved = ["corpus.root=elsewhere", "corpus.valid={src: valid.en, tgt: elsewhere/valid.de}"]
    assert entry.execute([command, "toy.yaml", *moved, "--dry-run"]) == 66
    remedy = f"relative paths of the command line are relative to the current directory, {folder}"
    assert f"{folder}/valid.en: no such file\n{remedy}\n" in capsys.readouterr().err


def test_every_missing_file_of_a_dry_run_is_named(folder: Path) -> None:
    """Some of the texts of two training corpora and two test sets, but not all; each fifth choice of 1,022."""
    for text in sorted(folder.glob("t*.??")):
        shutil.copy(text, folder / f"more-{text.name}")
    more = ["corpus.train.1={src: more-train.en, tgt: more-train.de}"]
    more += ["corpus.test.more={src: more-test.en, tgt: more-test.de}"]
    recipe, texts = load_recipe("toy.yaml", more), sorted(folder.glob("*.??"))
    assert len(texts) == 10
    (folder / "away").mkdir()
    choices = itertools.chain.from_iterable(itertools.combinations(texts, n) for n in range(1, len(texts)))
    for missing in itertools.islice(choices, None, None, 5):
        for text in missing:
            text.rename(folder / "away" / text.name)
        with pytest.raises(MissingInputError) as caught:
            check_existing_inputs(recipe)
        *named, last = str(caught.value).split("\n")
        rest = len(missing) - MAX_LISTED
        assert rest <= 0 or last == f"... and {rest} more"
        named = [*named, last] if rest <= 0 else named
        assert len(named) == min(len(missing), MAX_LISTED)
        assert set(named) <= {f"{text}: no such file" for text in missing}
        for text in missing:
            (folder / "away" / text.name).rename(text)


def test_a_dry_run_of_a_model_that_exceeds_the_memory(run: Run, folder: Path) -> None:
    assert run("train", "toy.yaml", "--dry-run", "tokenizer.vocab_size=10000000")[0] == 78
    code, err = run("train", "toy.yaml", "--dry-run", "model.d_model=100000", "model.d_ff=100000")
    assert (code, err.count("\n")) == (70, 1)
    assert "parameters need 1" in err


@pytest.mark.whole
def test_the_length_of_a_description_that_exceeds_the_memory(run: Run, folder: Path) -> None:
    code, err = run("describe", "toy.yaml", "--length", "3000000")
    assert (code, err.count("\n")) == (70, 1)
    assert "reduce --length" in err


@pytest.mark.whole
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
@pytest.mark.parametrize("command", ["train toy.yaml", pytest.param("describe toy.yaml", marks=pytest.mark.whole)])
def test_little_memory(folder: Path, command: str) -> None:
    shell = f"ulimit -v 900000; exec {sys.executable} -m mtkit {command}"
    done = subprocess.run(shell, shell=True, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, 70), done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert done.stderr.splitlines()[-1].startswith("mtkit: error: out of memory"), done.stderr


@pytest.mark.parametrize(("side", "key"), [("en", "encoder_positions"), ("de", "decoder_positions")])
def test_a_validation_line_beyond_the_positions_is_cleaned_like_a_training_line(
    run: Run, folder: Path, side: str, key: str
) -> None:
    path = folder / f"valid.{side}"
    texts = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in [*texts[:2], " ".join(texts[2].split() * 40), *texts[3:]]))
    positions = f"model.{key}={{kind: learned, max_length: 40}}"
    code, err = run("train", "toy.yaml", "corpus.cleaning.max_length=30", positions)
    assert (code, err.count("mtkit: error")) == (0, 0)
    assert "valid: 5 of 6 pairs kept; 1 dropped because one side exceeds cleaning.max_length: line 3" in err


@pytest.mark.parametrize(
    ("size", "keys", "reserved"), [(1, [], 102), (102, [], 102), (300, ["byte_fallback=true"], 358)]
)
def test_a_dry_run_with_fewer_tokens_than_are_reserved(
    folder: Path, run: Run, size: int, keys: list[str], reserved: int
) -> None:
    words = [f"tokenizer.{key}" for key in (f"vocab_size={size}", *keys)]
    code, message = run("train", "toy.yaml", *words, "--dry-run")
    assert code == 65
    assert f"tokenizer.vocab_size: {size} is too small: {reserved} tokens are reserved; raise it" in message
