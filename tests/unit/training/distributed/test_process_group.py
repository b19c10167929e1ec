"""Training on several processes equals training on one, with the whole model on each (ddp) or a shard (fsdp).

Two claims are tested apart, because they have different bounds: the gradient of one update in float32, and whole
trainings in float64.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mtkit.training.checkpoints.checkpoint import checkpoint_path, read_checkpoint
from mtkit.training.distributed import SINGLE_PROCESS, init_process_group
from mtkit.training.monitoring.log import parse_line
from tests.toy.ranked_training import (
    LAYERDROP,
    MICRO_BATCHES,
    UPDATES,
    gradients_of_updates,
    ranked_config,
    ranked_train,
)

ROOT = Path(__file__).parents[4]
PROGRAM = ROOT / "tests/toy/ranked_training.py"

# Maximum relative difference, in float64, between trainings that differ in nothing except the order of summation.
# At equal weights, the gradients differ by about 1e-15 of their norm (see the bound of the gradient test). From update
# to update a difference then grows by the sensitivity of the gradient to the weights, which is a property of model and
# data that the arithmetic does not bound: in this training, single updates amplify a relative difference of the weights
# a hundredfold. 1e-10 leaves a factor of 100,000 for that. Anything else that differs is far above it: one token that
# is not counted, or one other dropout mask, changes these numbers by more than 1e-4. In float32 there is no such gap:
# 6e-8 times the same growth exceeds any tolerance that would still notice a small error.
TRAINING_TOLERANCE = 1e-10


def start(folder, updates, event="nothing", parallel="ddp", world_size=2):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world_size)}
    common = {**os.environ, **address, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), str(folder), str(updates), parallel, event]
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


def assert_equal_to(tensors, expected):
    """Equal to TRAINING_TOLERANCE of their norm: each weight matrix, and all tensors together, as some are near 0."""
    assert {name: tensor.shape for name, tensor in tensors.items()} == {n: t.shape for n, t in expected.items()}
    for name, tensor in expected.items():
        if "/" not in name and tensor.dim() > 1:  # a weight, not an optimiser's state
            assert float((tensors[name] - tensor).norm()) <= TRAINING_TOLERANCE * float(tensor.norm()), name
    flat, flat_expected = (torch.cat([each[name].flatten() for name in expected]) for each in (tensors, expected))
    assert float((flat - flat_expected).norm()) <= TRAINING_TOLERANCE * float(flat_expected.norm())


def assert_logs_agree(values, expected):
    pairs = [torch.tensor(each, dtype=torch.float64) for each in (values, expected)]
    torch.testing.assert_close(*pairs, rtol=TRAINING_TOLERANCE, atol=0)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    ranked_train(folder, ranked_config(max_updates=UPDATES), SINGLE_PROCESS)
    return folder


@pytest.fixture(
    scope="module",
    params=[
        *(pytest.param((p, 2), marks=pytest.mark.whole) for p in ("ddp", "fsdp")),
        *(pytest.param((p, 4), marks=pytest.mark.slow) for p in ("ddp", "fsdp")),
    ],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def several(tmp_path_factory, request):
    """Run folder of a training on several ranks, and what each rank printed."""
    parallel, ranks = request.param
    folder = tmp_path_factory.mktemp("several")
    codes, outputs = finish(start(folder, UPDATES, "gradients", parallel, ranks))
    assert codes == [0] * ranks, outputs
    return folder, [out.split("\n")[-2].split() for out, _ in outputs]  # torch may print before


@pytest.fixture(scope="module")
def gradients_of_one():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as each rank, so that a micro-batch has the same gradient to the bit
    results = gradients_of_updates("ddp", SINGLE_PROCESS)
    torch.set_num_threads(threads)
    return results


def test_gradients_equal_those_of_one_process_up_to_the_order_of_summation(several, gradients_of_one):
    """Dropout is on: each micro-batch has a seed of its own, on whatever rank. One rank is idle at the end.

    The bound follows from float32 arithmetic. At equal weights and seeds, a micro-batch i has the same gradient g_i to
    the bit on any rank: the same kernels run on the same values in the same shapes and alignment, on one thread. The
    gradient of an update is the sum of its n micro-batches' gradients, and the number of ranks only decides about the
    order of summation: with one rank ((g_1 + g_2) + g_3); with ddp each rank sums its own and the all-reduce sums the
    ranks'; with fsdp a reduce-scatter sums the ranks' gradients of each round and the rounds are summed. Idle ranks add
    zeros, which is exact. A float32 sum of n terms, in any order, deviates from the exact sum in each component by at
    most (n - 1) u sum_i |g_i|, to first order in u = 2^-24 (Higham 2002, eq. 4.4). Two orders differ by at most twice
    that, and with the triangle inequality the norm of the difference of two gradients is at most

        2 (n - 1) u sum_i ||g_i||.

    This holds for each tensor. Relative to the norm of the sum it is 2.4e-7 times sum_i ||g_i|| / ||sum_i g_i|| for
    n = 3, so that it is 1e-6 only if the micro-batches' gradients do not cancel by more than a factor of four.

    The loss sums float32 losses of micro-batches in float64, where u = 2^-53. The norm is computed in float32 from N
    squares, whose sum has a relative error of at most N u, in any order; the square root halves it.
    """
    folder, _ = several
    results = torch.load(folder / "gradients.pt")
    assert len(results) == len(gradients_of_one) == UPDATES
    for result, expected in zip(results, gradients_of_one, strict=True):
        assert len(expected["parts"]) == MICRO_BATCHES
        assert result["tokens"] == expected["tokens"]
        assert result["loss"] == pytest.approx(expected["loss"], rel=2 * (MICRO_BATCHES - 1) * 2**-53, abs=0)
        for name, gradient in expected["gradients"].items():
            sum_of_norms = sum(float(part[name].double().norm()) for part in expected["parts"])
            difference = (result["gradients"][name].double() - gradient.double()).norm()
            assert float(difference) <= 2 * (MICRO_BATCHES - 1) * 2**-24 * sum_of_norms, name
        flat = torch.cat([gradient.flatten() for gradient in result["gradients"].values()]).double()
        assert result["norm"] == pytest.approx(float(flat.norm()), rel=flat.numel() * 2**-24, abs=0)


def test_several_ranks_end_with_the_weights_of_one(several, one):
    folder, printed = several
    weights = len(saved(one, UPDATES)["model"])
    assert printed == [["0", "20", str(weights)], *([str(rank), "20", "0"] for rank in range(1, len(printed)))]
    tensors, expected = saved(folder, UPDATES), saved(one, UPDATES)
    for file in ("model", "ema", "optimiser"):  # the optimiser's momentum is a sum of the gradients
        assert_equal_to(tensors[file], expected[file])
    for event, keys in {"train": ("loss", "grad_norm"), "validation": ("nll",)}.items():
        assert_logs_agree(*(logged(each, event, *keys) for each in (folder, one)))
    ratios = [
        [stats["update_ratio"] for (modules,) in logged(each, "train", "modules") for stats in modules.values()]
        for each in (folder, one)
    ]
    assert_logs_agree(*ratios)


@pytest.mark.whole
def test_a_layer_that_every_rank_skips_is_not_updated(tmp_path):
    """Momentum would move it. Each micro-batch skips other layers, and with them their experts' losses for the log."""
    ranked_train(tmp_path / "one", ranked_config(max_updates=8), SINGLE_PROCESS, model_keys=LAYERDROP)
    codes, outputs = finish(start(tmp_path / "two", 8, "layerdrop"))
    assert codes == [0, 0], outputs
    assert_equal_to(saved(tmp_path / "two", 8)["model"], saved(tmp_path / "one", 8)["model"])


@pytest.mark.whole
def test_a_checkpoint_resumes_at_another_world_size_and_sharded(tmp_path, one):
    ranked_train(tmp_path, ranked_config(max_updates=UPDATES, max_hours=1e-9), SINGLE_PROCESS)
    codes, outputs = finish(start(tmp_path, UPDATES, parallel="fsdp"))
    assert codes == [0, 0], outputs
    assert_equal_to(saved(tmp_path, UPDATES)["model"], saved(one, UPDATES)["model"])


@pytest.mark.whole
@pytest.mark.parametrize(
    ("event", "last"),
    [
        ("signal", 4),
        pytest.param("late signal", 5, marks=pytest.mark.slow),
        pytest.param("signal, slow end", 4, marks=pytest.mark.slow),
    ],
)
def test_a_signal_to_one_rank_stops_all_at_the_same_update(tmp_path, event, last):
    codes, outputs = finish(start(tmp_path, UPDATES, event))
    assert all(f"interrupted after update {last}" in err for _, err in outputs), outputs
    assert codes == [1, 1]  # of the toy program; the command exits with 143
    assert saved(tmp_path, last)["model"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "status"), [("raise", "failed: ValueError: no reason"), ("kill", "is dead or stopped")]
)
def test_a_lost_rank_ends_the_others_by_name(tmp_path, event, status):
    processes = start(tmp_path, UPDATES, event)
    _, err = processes[0].communicate(timeout=120)
    finish(processes[1:])
    assert processes[0].returncode == 70
    assert f"process {processes[1].pid}) {status}" in err


@pytest.mark.whole
def test_a_stopped_rank_ends_the_others_by_name(tmp_path):
    processes = start(tmp_path, UPDATES, "stop")
    _, err = processes[0].communicate(timeout=120)
    assert processes[0].returncode == 70
    assert "rank 1 (" in err
    assert f"process {processes[1].pid}) is dead or stopped" in err
    processes[1].kill()
    processes[1].communicate()


def test_a_single_process_communicates_nothing():
    with init_process_group() as ranks:
        assert ranks == SINGLE_PROCESS
        assert ranks.all_gather([1.0, 2.0]) == [[1.0, 2.0]]
        assert ranks.all_gather_text("text") == ["text"]
        model = torch.nn.Linear(2, 2)
        ranks.all_reduce_gradients(model)
        assert model.weight.grad is None
