"""A command that would write over a file that it reads, or one of a model or run, is refused; the file stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.pipeline.run_folder import RunFolder

TEXT = {name: "".join(f"{name} line {number}\n" for number in range(20)) for name in ("a.en", "a.de", "words.vocab")}


@pytest.fixture
def model(toy_model: Callable[[ModelConfigBase], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model; the current directory has the files of TEXT and a recipe."""
    monkeypatch.chdir(tmp_path)
    for name, text in TEXT.items():
        Path(name).write_text(text)
    Path("link.en").symlink_to("a.en")
    Path("toy.yaml").write_text("name: toy\ncorpus: {src_lang: en, tgt_lang: de, train: [{src: a.en, tgt: a.de}]}\n")
    return toy_model(Seq2SeqRNNConfig(d_model=8, d_embed=8, num_layers=1))


@pytest.mark.parametrize(
    "words",
    [
        "translate MODEL a.en -o a.en",
        "translate MODEL a.en -o link.en",
        "translate MODEL a.en --alignments a.en",
        "translate MODEL a.en --constraints a.de -o a.de",
        "score MODEL --src a.en --ref a.de --json a.en",
        "score MODEL --src a.en --ref a.de --json a.de",
        "evaluate a.de --ref a.de --json a.de",
        "evaluate a.de --ref a.de --src a.en --json a.en",
        "evaluate a.de --ref a.de --docid a.en --json a.en",
        "explain MODEL --src a.en --ref a.de --json a.en",
        "explain MODEL --src a.en --ref a.de --alignments words.vocab --json words.vocab",
        "bench MODEL a.en --json a.en",
        "bench MODEL a.en --ref a.de --json a.de",
        "describe toy.yaml --json toy.yaml",
        "plot toy.yaml --positions -o toy.yaml",
        "train-vectors a.en -o a.en",
        "train-bpe a.en words.vocab --vocab-size 110 -o words",
    ],
)
def test_an_output_that_is_an_input(model: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    assert entry.execute([str(model) if word == "MODEL" else word for word in words.split()]) == 2
    message = capsys.readouterr().err
    assert "would overwrite an input file; name another FILE" in message
    assert message.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("translate MODEL a.en -o MODEL/config.json", "config.json"),
        ("translate MODEL a.en -o fine --flags MODEL/model.safetensors", "model.safetensors"),
        ("translate MODEL a.en --alignments link.json", "config.json"),
        ("score MODEL --src a.en --ref a.de --json MODEL/config.json", "config.json"),
        ("evaluate a.de --ref a.en --json MODEL/README.md", "README.md"),
        ("describe MODEL --json MODEL/config.json", "config.json"),
        ("train-bpe a.en --vocab-size 110 -o MODEL/spm", "spm.model"),
    ],
)
def test_an_output_that_is_a_file_of_a_model(
    model: Path, capsys: pytest.CaptureFixture[str], words: str, name: str
) -> None:
    Path("link.json").symlink_to(model / "config.json")
    before = {path: path.read_bytes() for path in model.iterdir()}
    assert name in {path.name for path in before}
    assert entry.execute([word.replace("MODEL", str(model)) for word in words.split()]) == 2
    message = capsys.readouterr().err
    assert f"would overwrite a file of the model {model.resolve()}; name another FILE" in message
    assert message.count("\n") == 1
    assert {path: path.read_bytes() for path in model.iterdir()} == before


@pytest.mark.parametrize(
    "name", ["recipe.yaml", "version.json", "report.json", "log.jsonl", "corpus/train.0/manifest.json"]
)
def test_an_output_that_is_a_file_of_a_run_folder(model: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    run = Path("runs/toy")
    (run / name).parent.mkdir(parents=True)
    RunFolder(run).write_version()
    if name != "version.json":
        (run / name).write_text("{}")
    before = (run / name).read_bytes()
    assert entry.execute(["evaluate", "a.de", "--ref", "a.en", "--json", str(run / name)]) == 2
    assert f"would overwrite a file of the run folder {run.resolve()}; name another" in capsys.readouterr().err
    assert (run / name).read_bytes() == before


@pytest.mark.whole
def test_a_text_of_the_user_in_a_run_folder_is_overwritten(model: Path) -> None:
    run = Path("runs/toy")
    (run / "hyps").mkdir(parents=True)
    RunFolder(run).write_version()
    for output in (run / "scores.json", run / "hyps/mine.json", model / "mine.json"):
        output.write_text("old")
        assert entry.execute(["evaluate", "a.de", "--ref", "a.en", "--json", str(output)]) == 0
        assert output.read_text() != "old"


@pytest.mark.parametrize("content", ['{"version": "1.2.3"}', "1.2.3", "{}"])
def test_a_folder_of_another_program_with_a_version(model: Path, content: str) -> None:
    Path("version.json").write_text(content)
    Path("config.json").write_text(content)
    Path("corpus").mkdir()
    for output in (Path("corpus/scores.json"), Path("config.json")):
        output.write_text("old")
        assert entry.execute(["evaluate", "a.de", "--ref", "a.en", "--json", str(output)]) == 0
        assert output.read_text() != "old"


def test_a_sweep_over_a_text(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("words.110.vocab").write_text(TEXT["a.en"])
    assert entry.execute(["train-bpe", "words.110.vocab", "--sweep", "110,120", "-o", "words"]) == 2
    assert "-o words.110.vocab would overwrite an input file" in capsys.readouterr().err
    assert Path("words.110.vocab").read_text() == TEXT["a.en"]


def test_a_recipe_over_a_text(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.execute(["new", "a.en", "a.de", "-o", "a.en"]) == 2
    assert "a.en: is one of the texts, which the recipe would overwrite" in capsys.readouterr().err
    assert Path("a.en").read_text() == TEXT["a.en"]


def test_an_average_over_one_of_its_models(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (model / "model.safetensors").read_bytes()
    assert entry.execute(["average", str(model), "-o", f"{model}/../{model.name}"]) == 2
    assert "is one of the models to average, which it would replace" in capsys.readouterr().err
    assert (model / "model.safetensors").read_bytes() == before


def test_a_device_may_be_input_and_output(model: Path) -> None:
    assert entry.execute(["translate", str(model), os.devnull, "-o", os.devnull]) == 0


@pytest.mark.whole
@pytest.mark.parametrize("words", ["encode MODEL a.en", "decode MODEL a.en", "encode MODEL -", "translate MODEL a.en"])
def test_a_text_that_stdout_is_appended_to(model: Path, words: str) -> None:
    """Without the refusal the command would read the lines that it writes, without end."""
    command = [sys.executable, "-m", "mtkit", *(str(model) if word == "MODEL" else word for word in words.split())]
    with Path("a.en").open("ab") as stdout, Path("a.en").open("rb") as stdin:
        done = subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=100)
    assert done.returncode == 2
    assert "stdout is redirected to this input file" in done.stderr
    assert Path("a.en").read_text() == TEXT["a.en"]


def test_scores_appended_to_a_scored_text(model: Path) -> None:
    command = [sys.executable, "-m", "mtkit", "score", str(model), "--src", "a.en", "--ref", "a.de"]
    with Path("a.de").open("ab") as stdout:
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=100)
    assert done.returncode == 2
    assert "a.de: stdout is redirected to this input file" in done.stderr
    assert Path("a.de").read_text() == TEXT["a.de"]
