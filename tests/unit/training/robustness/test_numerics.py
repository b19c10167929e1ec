"""Numerics: recorded in every checkpoint, and a training that is resumed with others says so."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from mtkit.hardware import has_bf16
from mtkit.layers import matmul, native_kernels
from mtkit.training.checkpoints.checkpoint import list_checkpoints, read_state
from mtkit.training.distributed import SINGLE_PROCESS
from mtkit.training.loop import train
from mtkit.training.monitoring.log import Log, PlainDisplay
from mtkit.training.numerics import Numerics
from mtkit.training.run import TrainingRun
from tests.toy.training import ToyLoader, events, toy_config, toy_learner, toy_train

HERE = Numerics(threads=(1,), torch_version="2.9.1", cpu="AVX2", device="cpu")


@pytest.fixture
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_the_record_is_of_this_process() -> None:
    numerics = Numerics.of(torch.device("cpu"), SINGLE_PROCESS)
    assert numerics.to_json() == {
        "threads": [torch.get_num_threads()],
        "torch_version": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "device": "cpu",
        "matmul": matmul.chosen_library(),
        "kernels": native_kernels.kernels_in_use(),
        **({"matmul_bf16": matmul.chosen_library(torch.bfloat16)} if has_bf16(torch.device("cpu")) else {}),
    }
    assert json.loads(json.dumps(numerics.to_json())) == numerics.to_json()


def test_changes() -> None:
    assert HERE.changes_since(HERE.to_json()) == []
    assert replace(HERE, threads=(2,)).changes_since(HERE.to_json()) == ["threads 2 instead of 1"]
    other = replace(HERE, threads=(4, 4), cpu="AVX512")
    assert other.changes_since(HERE.to_json()) == ["threads 4 + 4 instead of 1", "cpu AVX512 instead of AVX2"]


@pytest.mark.skipif(not matmul.has_onednn(), reason="this torch has no oneDNN")
def test_the_library_of_products_is_kept_on_the_same_processor(monkeypatch) -> None:
    monkeypatch.delenv(matmul.VARIABLE, raising=False)
    monkeypatch.setattr(matmul, "_library", {torch.float32: "blas"})
    monkeypatch.setattr(native_kernels, "_is_used", True)
    HERE.use_same_library({"cpu": "AVX512", "matmul": "onednn"})
    assert matmul.chosen_library() == "blas"
    HERE.use_same_library({"cpu": "AVX2"})
    assert matmul.chosen_library() == "blas"
    HERE.use_same_library({"cpu": "AVX2", "matmul": "onednn"})
    assert matmul.chosen_library() == "onednn"
    assert HERE.changes_since({"matmul": "blas"}) == ["matmul onednn instead of blas"]
    assert HERE.to_json()["kernels"] == "torch"  # an earlier version had no others
    HERE.use_same_library({"cpu": "AVX2", "matmul": "onednn", "kernels": "native avx2"})
    assert HERE.to_json()["kernels"] != "torch" or not native_kernels.is_available()


def test_entries_that_an_older_record_lacks_are_skipped() -> None:
    assert HERE.changes_since({}) == []
    assert HERE.changes_since({"torch_version": "2.9.0", "something": 1}) == ["torch version 2.9.1 instead of 2.9.0"]


def test_every_checkpoint_has_the_record(tmp_path) -> None:
    toy_train(tmp_path, toy_config(max_updates=8))
    paths = list_checkpoints(tmp_path / "checkpoints").values()
    assert paths
    expected = Numerics.of(torch.device("cpu"), SINGLE_PROCESS).to_json()
    assert all(read_state(path)["numerics"] == expected for path in paths)
    (begin,) = events(tmp_path, "begin")
    assert begin["numerics"] == expected


def resume(folder, config) -> None:
    """Train with a display on stderr."""
    with Log(folder / "log.jsonl", PlainDisplay()) as log:
        train(TrainingRun(toy_learner(config), config=config, folder=folder, log=log, validator=None), ToyLoader())


@pytest.mark.usefixtures("_two_threads")
def test_resuming_with_another_number_of_threads_is_said_once_and_goes_on(tmp_path, capsys) -> None:
    resume(tmp_path, toy_config(max_updates=8))
    assert "instead of" not in capsys.readouterr().err
    resume(tmp_path, toy_config(max_updates=12))
    assert "instead of" not in capsys.readouterr().err
    assert events(tmp_path, "numerics_changed") == []
    torch.set_num_threads(1)
    resume(tmp_path, toy_config(max_updates=16))
    (line,) = (line for line in capsys.readouterr().err.split("\n") if "instead of" in line)
    assert line.startswith("numerics_changed: threads 1 instead of 2: the weights will differ in rounding")
    (event,) = events(tmp_path, "numerics_changed")
    assert event["update"] == 12
    assert line.endswith(event["result"])
    resume(tmp_path, toy_config(max_updates=20))
    assert "instead of" not in capsys.readouterr().err
    assert [record["update"] for record in events(tmp_path, "end")][-1] == 20
