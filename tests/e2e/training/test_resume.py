"""A training that is interrupted in any way and resumed ends with the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mtkit.config import construct
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.checkpoints.checkpoint import list_checkpoints, read_checkpoint
from mtkit.training.config import DivergenceConfig, EMAConfig
from mtkit.training.decoder_inputs.config import ScheduledSamplingConfig
from mtkit.training.learner import build_learner
from mtkit.training.optimisers.config import AdamConfig, AdamWConfig
from mtkit.training.optimisers.schedule import PlateauConfig
from tests.e2e.training.crash_harness import config as crash_config
from tests.toy.training import VOCAB, objective_inputs_of, toy_config, toy_train

ROOT = Path(__file__).parents[3]
MODELS = {
    "transformer": TransformerConfig(d_model=16, num_heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, dropout=0.2),
    "lstm": Seq2SeqRNNConfig(d_model=8, num_layers=1, dropout=0.2),
    "attention_rnn": AttentionRNNConfig(d_model=8, dropout=0.2),
}


def learner_of(kind, config):
    torch.manual_seed(config.seed)
    model = MODELS[kind].build(VOCAB, VOCAB)
    objective = construct(config.objective, objective_inputs_of(config))
    return build_learner(model, objective, config=config)


def all_tensors(folder):
    """All tensors of the newest checkpoint: weights, EMA and optimiser state."""
    *_, newest = list_checkpoints(folder / "checkpoints").values()
    files = read_checkpoint(newest).tensors
    return {f"{file}/{name}": tensor for file, tensors in files.items() for name, tensor in tensors.items()}


def assert_same(a, b):
    assert a.keys() == b.keys()
    assert [name for name in a if not torch.equal(a[name], b[name])] == []


VARIANTS = {
    "defaults": {},
    "scheduled_sampling": {"decoder_input": ScheduledSamplingConfig()},
    "activation_checkpointing": {"activation_checkpointing": True},
    "divergence": {
        "on_divergence": DivergenceConfig(loss_factor=0.5, updates=5, max_recoveries=9),
        "validate_every": 4,
    },
}


@pytest.mark.parametrize(
    ("kind", "variant"),
    [
        (kind, variant)
        if kind == "transformer" or variant == "defaults"
        else pytest.param(kind, variant, marks=pytest.mark.whole)
        for kind in MODELS
        for variant in VARIANTS
    ],
)
def test_two_halves_equal_the_whole(tmp_path, kind, variant):
    common = {
        "optimiser": AdamWConfig(),
        "schedule": PlateauConfig(warmup=2, patience=1),
        "ema": EMAConfig(decay=0.9, update_every=2),
        **VARIANTS[variant],
    }
    config, half = toy_config(max_updates=16, **common), toy_config(max_updates=8, **common)
    whole = toy_train(tmp_path / "whole", config, learner=learner_of(kind, config))
    toy_train(tmp_path / "halves", half, learner=learner_of(kind, half))
    resumed = toy_train(tmp_path / "halves", config, learner=learner_of(kind, config))
    assert_same(all_tensors(tmp_path / "whole"), all_tensors(tmp_path / "halves"))
    if variant != "scheduled_sampling":
        assert_same(whole.weights, resumed.weights)


@pytest.mark.whole
def test_twelve_interruptions_in_bf16(tmp_path):
    config = toy_config(max_updates=12, precision="bf16", optimiser=AdamConfig())
    whole = toy_train(tmp_path / "whole", config, learner=learner_of("transformer", config))
    short = toy_config(**{**vars(config), "max_hours": 1e-9})
    for _ in range(12):
        toy_train(tmp_path / "resumed", short, learner=learner_of("transformer", short))
    resumed = toy_train(tmp_path / "resumed", config, learner=learner_of("transformer", config))
    assert_same(whole.weights, resumed.weights)


def killed(folder, kills, seed):
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/e2e/training/crash_harness.py"), str(folder), str(kills), str(seed)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_kills(folder, kills, seed):
    output = killed(folder / "killed", kills, seed)
    toy_train(folder / "whole", crash_config())
    assert_same(all_tensors(folder / "whole"), all_tensors(folder / "killed"))
    return output


@pytest.mark.whole
def test_killed_at_random_moments(tmp_path):
    assert "-9" in check_kills(tmp_path, 3, 1)


@pytest.mark.slow
def test_killed_two_hundred_times(tmp_path):
    for seed in range(10):
        check_kills(tmp_path / str(seed), 20, seed)
