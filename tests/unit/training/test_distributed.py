"""Two processes do what one does."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mtkit.training.checkpoint import checkpoint_path, read_checkpoint
from mtkit.training.distributed import ALONE, joined
from tests.unit.training.ranked_training import ranked_config, ranked_train

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests/unit/training/ranked_training.py"


def start(folder, updates, what="nothing", world_size=2):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world_size)}
    common = {**os.environ, **place, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), str(folder), str(updates), what]
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
    return read_checkpoint(checkpoint_path(folder / "checkpoints", update)).tensors["model"]


def assert_equal_to(found, expected, tolerance):
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        assert float((found[name] - weight).norm()) <= tolerance * float(weight.norm()), name


def test_two_ranks_end_with_the_weights_of_one(tmp_path):
    """Dropout is on: each micro-batch draws from its own seed, whoever computes it. An idle rank is among them."""
    codes, outputs = finish(start(tmp_path / "two", 20))
    assert codes == [0, 0], outputs
    assert [out.split() for out, _ in outputs] == [["0", "20", "4"], ["1", "20", "0"]]
    ranked_train(tmp_path / "one", ranked_config(max_updates=20), ALONE)
    assert_equal_to(saved(tmp_path / "two", 20), saved(tmp_path / "one", 20), 1e-6)


def test_a_checkpoint_goes_on_at_another_world_size(tmp_path):
    ranked_train(tmp_path, ranked_config(max_updates=20, max_hours=1e-9), ALONE)
    codes, outputs = finish(start(tmp_path, 20))
    assert codes == [0, 0], outputs
    ranked_train(tmp_path / "one", ranked_config(max_updates=20), ALONE)
    assert_equal_to(saved(tmp_path, 20), saved(tmp_path / "one", 20), 1e-6)


def test_a_signal_to_one_stops_all_at_one_update(tmp_path):
    codes, outputs = finish(start(tmp_path, 20, "signal"))
    assert all("interrupted after update 4" in err for _, err in outputs), outputs
    assert codes == [1, 1]  # of the toy program; the command exits 143
    assert saved(tmp_path, 4)


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


def test_alone_nothing_is_exchanged():
    with joined() as ranks:
        assert ranks == ALONE
        assert ranks.sum(3) == 3
        assert ranks.gather([1.0, 2.0]) == [[1.0, 2.0]]
        assert ranks.text_from_first("text") == "text"
        model = torch.nn.Linear(2, 2)
        ranks.add_gradients(model)
        assert model.weight.grad is None
