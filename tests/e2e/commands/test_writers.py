"""Two processes that write one output, and what killed processes leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.io.files import host_name
from mtkit.io.lock import OutputLock
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.pipeline import train_stage
from mtkit.training.distributed import ProcessGroup
from tests.toy import runs

ROOT = Path(__file__).parents[3]
LSTM = Seq2SeqRNNConfig(d_model=8, d_embed=8, num_layers=1)


@pytest.mark.whole
def test_the_second_translation_into_a_file_is_refused(
    toy_model: Callable[[ModelConfigBase], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, output, other = toy_model(LSTM), tmp_path / "out.txt", tmp_path / "other.txt"
    other.write_text("the house\n" * 9)
    words = ["-m", "mtkit", "translate", str(model), "-o", str(output), "--flush-every", "1"]
    command = [sys.executable, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT) as first:
        assert first.stdin is not None
        first.stdin.write(b"the dog\n")
        first.stdin.flush()
        while not (tmp_path / "out.txt.part.jsonl").exists():
            assert first.poll() is None
        for resume in ([], ["--resume"]):
            assert entry.execute(["translate", str(model), str(other), "-o", str(output), *resume]) == 75
            message = f"{output}: locked by process {first.pid} on host {os.uname().nodename}; wait for that process or"
            assert message in capsys.readouterr().err
        first.stdin.write(b"a cat\n")
        first.stdin.close()
        assert first.wait() == 0
    assert output.read_text().count("\n") == 2
    assert [path.name for path in tmp_path.glob("*out.txt*")] == ["out.txt"]


def test_a_part_that_is_a_link_is_refused(
    toy_model: Callable[[ModelConfigBase], Path], tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out.part").symlink_to(text)
    before = text.read_bytes()
    assert entry.execute(["translate", str(toy_model(LSTM)), str(text), "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.endswith(
        "out.part: is a symbolic link, but unfinished output is written there; remove it, or name another output\n"
    )
    assert text.read_bytes() == before


@pytest.mark.parametrize("command", ["average", "train-bpe", "ctranslate2", "onnx"])
def test_an_output_that_another_process_writes_is_left_alone(
    command: str,
    toy_model: Callable[[ModelConfigBase], Path],
    tmp_path: Path,
    text: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out"
    words = {
        "average": ["average", str(toy_model(LSTM))],
        "train-bpe": ["train-bpe", str(text), "--vocab-size", "120", "--model-type", "char"],
    }
    if command not in words:
        pytest.importorskip(command)
        config = TransformerConfig(d_model=16, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1)
        words[command] = ["export", str(toy_model(config)), "--to", command]
    with OutputLock(output):
        assert entry.execute([*words[command], "-o", str(output)]) == 75
    assert f"{output}: locked by process {os.getpid()}" in capsys.readouterr().err
    assert list(tmp_path.glob("*out*")) == []


def test_the_next_run_removes_what_a_killed_one_left_in_its_folder(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    runs.write_all(tmp_path)
    folder = tmp_path / "run"
    for place, name in (("corpus", "train.0"), (".", "tokenizer"), (".", "model"), ("checkpoints", "update-00000001")):
        for host in (host_name(), "another"):
            left = folder / place / f".{name}.{host}.{dead.pid}.tmp"
            left.mkdir(parents=True)
            (left / "src.ids").write_bytes(b"half")
    (folder / f".report.json.{host_name()}.{dead.pid}.tmp").write_text("half")
    runs.run(tmp_path, "training.max_updates=1")
    assert [path for path in folder.rglob("*") if path.name.endswith(".tmp")] == []


def test_ranks_leave_nothing_in_the_temporary_folder_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.write_all(tmp_path)
    runs.run(tmp_path, "training.max_updates=1")
    (tmp_path / "system").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "system"))
    present: list[list[Path]] = []

    def train_model(run: train_stage.Run, *_: object) -> None:
        run.log.event("train", 1)
        run.log.rewind(0)
        present.append(list((tmp_path / "system").iterdir()))

    monkeypatch.setattr(train_stage, "train_model", train_model)
    train_stage.train_as_worker(runs.toy(tmp_path), tmp_path / "run", ProcessGroup())
    assert present == [[]]
