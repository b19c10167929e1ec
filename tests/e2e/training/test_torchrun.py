"""`torchrun -m mtkit train` on two processes is the training of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mtkit.errors import RecipeError
from mtkit.pipeline import stages
from mtkit.recipe.recipe import load_recipe
from tests.toy.runs import MODELS, RECIPE, sentences, toy, write_all, write_pair

ROOT = Path(__file__).parents[3]
KEYS = ["training.micro_batches=3", "training.optimiser={kind: sgd, learning_rate: 0.01}", "training.batch_tokens=64"]
# Maximum difference of a weight tensor, relative to its norm or to 1 if that is larger. In float32 (u = 2^-24) an
# update rounds each weight once, so that two trainings move apart by up to 2 u of the norm: 4.8e-7 in four updates. The
# order in which three micro-batches are summed adds 4 u times the sum of their gradient norms times the learning rate:
# 2.4e-9 times that sum per update, of gradients that are clipped to 1. At this learning rate the sensitivity of the
# gradient to the weights (see TRAINING_TOLERANCE in test_process_group.py) amplifies neither noticeably. A lost
# micro-batch changes the weights by about 1e-2.
TOLERANCE = 1e-6


@pytest.mark.whole
@pytest.mark.parametrize("parallel", ["fsdp", pytest.param("ddp", marks=pytest.mark.slow)])
def test_two_processes_train_the_model_of_one(tmp_path, parallel):
    for name, count, seed in (("train", 60, 0), ("valid", 6, 1), ("test", 7, 2)):
        write_pair(tmp_path, name, sentences(count, seed))
    recipe = tmp_path / "toy.yaml"
    recipe.write_text(f"{RECIPE}model: {MODELS['transformer']}\n")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [
        *torchrun,
        "-m",
        "mtkit",
        "train",
        str(recipe),
        *KEYS,
        f"training.parallel={parallel}",
        "--run-dir",
        str(tmp_path / "two"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("training ended after 4 updates") == 1
    stages.train(load_recipe(str(recipe), KEYS), run_dir=tmp_path / "one")
    two, one = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("two", "one"))
    for name, weight in one.items():
        assert float((two[name] - weight).norm()) <= TOLERANCE * max(1.0, float(weight.norm())), name
    texts = [(tmp_path / name / "log.jsonl").read_text().rstrip("\n") for name in ("two", "one")]
    logs = [[json.loads(line) for line in text.split("\n")] for text in texts]
    scores = [[(e["update"], e["bleu"]) for e in log if e["event"] == "validation"] for log in logs]
    assert scores[0] == scores[1]  # the two processes decode half of the sentences each
    assert len(scores[0]) == 2
    assert torch.isfinite(torch.tensor([e["nll"] for e in logs[0] if e["event"] == "validation"])).all()


@pytest.mark.parametrize("stage", [stages.run, stages.train])
def test_more_processes_than_micro_batches_are_refused(tmp_path, monkeypatch, stage):
    write_all(tmp_path)
    for name, value in {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    message = "training.micro_batches: 3, fewer than the 4 processes, .* set it to 4 or a multiple, and .*batch_tokens"
    with pytest.raises(RecipeError, match=message):
        stage(toy(tmp_path, "training.micro_batches=3"), run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
