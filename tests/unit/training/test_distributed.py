"""Several processes do what one does, each with the whole model or with a part of it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mtkit.training.checkpoints.checkpoint import checkpoint_path, read_checkpoint
from mtkit.training.config import TrainingConfig
from mtkit.training.distributed.process_group import ALONE, joined
from mtkit.training.monitoring.log import parse_line
from mtkit.training.optimisers.adafactor import AdafactorConfig
from mtkit.training.optimisers.muon import MuonConfig
from tests.unit.training.ranked_training import LEFT_OUT, ranked_config, ranked_train

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests/unit/training/ranked_training.py"


def start(folder, updates, what="nothing", parallel="ddp", world_size=2):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world_size)}
    common = {**os.environ, **place, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), str(folder), str(updates), parallel, what]
    return [
        subprocess.Popen(
            command, env={**common, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(world_size)
    ]


def finish(processes):
    outputs = [process.communicate(timeout=120) for process in processes]
    return [process.returncode for process in processes], outputs


def saved(folder, update):
    return read_checkpoint(checkpoint_path(folder / "checkpoints", update)).tensors


def logged(folder, event, *keys):
    records = [parse_line(line) for line in (folder / "log.jsonl").read_bytes().split(b"\n")]
    return [[record[key] for key in keys] for record in records if record is not None and record["event"] == event]


def assert_equal_to(found, expected):
    """To 1e-6 of their norm: matrices of weights each, and all together, as some vectors are nearly zero."""
    assert {name: tensor.shape for name, tensor in found.items()} == {n: t.shape for n, t in expected.items()}
    for name, tensor in expected.items():
        if "/" not in name and tensor.dim() > 1:  # a weight, not what the optimiser remembers of it
            assert float((found[name] - tensor).norm()) <= 1e-6 * float(tensor.norm()), name
    one, other = (torch.cat([tensors[name].flatten() for name in expected]) for tensors in (expected, found))
    assert float((other - one).norm()) <= 1e-6 * float(one.norm())


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    ranked_train(folder, ranked_config(max_updates=20), ALONE)
    return folder


@pytest.mark.parametrize(
    ("parallel", "ranks"),
    [("ddp", 2), ("fsdp", 2), *(pytest.param(p, 4, marks=pytest.mark.slow) for p in ("ddp", "fsdp"))],
)
def test_several_ranks_end_with_the_weights_of_one(tmp_path, one, parallel, ranks):
    """Dropout is on: each micro-batch draws from its own seed, whoever computes it. An idle rank is among them."""
    codes, outputs = finish(start(tmp_path, 20, parallel=parallel, world_size=ranks))
    assert codes == [0] * ranks, outputs
    weights = len(saved(one, 20)["model"])
    said = [["0", "20", str(weights)], *([str(rank), "20", "0"] for rank in range(1, ranks))]
    assert [out.split() for out, _ in outputs] == said
    found, expected = saved(tmp_path, 20), saved(one, 20)
    for file in ("model", "average", "optimiser"):  # the last has the sum of the gradients
        assert_equal_to(found[file], expected[file])
    for event, keys in {"train": ("loss", "grad_norm"), "validation": ("nll",)}.items():
        assert torch.allclose(*(torch.tensor(logged(each, event, *keys)) for each in (tmp_path, one)), rtol=2e-6)
    ratios = [
        [part["update_ratio"] for (parts,) in logged(each, "train", "parts") for part in parts.values()]
        for each in (tmp_path, one)
    ]
    assert torch.allclose(*map(torch.tensor, ratios), rtol=1e-4)


def test_a_layer_that_no_rank_went_through_is_left_alone(tmp_path):
    """Momentum would move it. Each micro-batch leaves out other layers, and with their experts figures for the log."""
    ranked_train(tmp_path / "one", ranked_config(max_updates=8), ALONE, keys=LEFT_OUT)
    codes, outputs = finish(start(tmp_path / "two", 8, "drop layers"))
    assert codes == [0, 0], outputs
    assert_equal_to(saved(tmp_path / "two", 8)["model"], saved(tmp_path / "one", 8)["model"])


def test_a_checkpoint_goes_on_at_another_world_size_in_parts(tmp_path, one):
    ranked_train(tmp_path, ranked_config(max_updates=20, max_hours=1e-9), ALONE)
    codes, outputs = finish(start(tmp_path, 20, parallel="fsdp"))
    assert codes == [0, 0], outputs
    assert_equal_to(saved(tmp_path, 20)["model"], saved(one, 20)["model"])


@pytest.mark.parametrize(("what", "last"), [("signal", 4), ("late signal", 5)])
def test_a_signal_to_one_stops_all_at_one_update(tmp_path, what, last):
    codes, outputs = finish(start(tmp_path, 20, what))
    assert all(f"interrupted after update {last}" in err for _, err in outputs), outputs
    assert codes == [1, 1]  # of the toy program; the command exits 143
    assert saved(tmp_path, last)["model"]


@pytest.mark.slow
@pytest.mark.parametrize(("what", "said"), [("raise", "failed: ValueError: no reason"), ("kill", "is dead or stopped")])
def test_a_lost_rank_ends_the_others_by_name(tmp_path, what, said):
    processes = start(tmp_path, 20, what)
    _, err = processes[0].communicate(timeout=120)
    finish(processes[1:])
    assert processes[0].returncode == 70
    assert f"process {processes[1].pid}) {said}" in err


def test_a_stopped_rank_ends_the_others_by_name(tmp_path):
    processes = start(tmp_path, 20, "stop")
    _, err = processes[0].communicate(timeout=120)
    assert processes[0].returncode == 70
    assert "rank 1 (" in err
    assert f"process {processes[1].pid}) is dead or stopped" in err
    processes[1].kill()
    processes[1].communicate()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"optimiser": MuonConfig()}, "optimiser.kind muon needs whole ones; take adam, adamw, lion or sgd"),
        ({"optimiser": AdafactorConfig()}, "optimiser.kind adafactor needs whole ones"),
        ({"precision": "fp16"}, "precision fp16 needs; take bf16, or parallel ddp"),
        ({"compile": True}, "set compile to false, or parallel to ddp"),
    ],
)
def test_what_needs_whole_weights_is_refused_where_they_are_cut(keys, said):
    with pytest.raises(ValueError, match=said):
        TrainingConfig(parallel="fsdp", **keys)
    assert TrainingConfig(parallel="ddp", **keys).parallel == "ddp"


def test_alone_nothing_is_exchanged():
    with joined() as ranks:
        assert ranks == ALONE
        assert ranks.sum(3) == 3
        assert ranks.gather([1.0, 2.0]) == [[1.0, 2.0]]
        assert ranks.texts("text") == ["text"]
        model = torch.nn.Linear(2, 2)
        ranks.add_gradients(model)
        assert model.weight.grad is None
