"""`torchrun -m mtkit train` on two processes is the training of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mtkit import pipeline
from mtkit.recipe.recipe import load_recipe
from tests.e2e.test_pipeline import MODELS, RECIPE, sentences, write_pair

ROOT = Path(__file__).parents[2]
KEYS = ["training.micro_batches=3", "training.optimiser={kind: sgd, learning_rate: 0.5}", "training.batch_tokens=64"]


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
    pipeline.train(load_recipe(str(recipe), KEYS), run_dir=tmp_path / "one")
    two, one = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("two", "one"))
    for name, weight in one.items():
        assert float((two[name] - weight).norm()) <= 1e-6 * float(weight.norm()), name
    texts = [(tmp_path / name / "log.jsonl").read_text().rstrip("\n") for name in ("two", "one")]
    logs = [[json.loads(line) for line in text.split("\n")] for text in texts]
    found = [[(e["update"], e["bleu"]) for e in log if e["event"] == "validation"] for log in logs]
    assert found[0] == found[1]  # of sentences that the two have shared
    assert len(found[0]) == 2
    assert torch.isfinite(torch.tensor([e["nll"] for e in logs[0] if e["event"] == "validation"])).all()
