"""Losses and gradients that are not finite: the weights do not change, and training stops or continues."""

import json
import signal
from dataclasses import replace

import pytest
import torch

from mtkit.corpus.order.loader import DataPosition
from mtkit.errors import ComputeError, Interrupted
from mtkit.training.checkpoints.checkpoint import list_checkpoints, read_state
from mtkit.training.checkpoints.tensor_file import read_tensors
from tests.toy.training import (
    PoisonedCrossEntropy,
    ToyLoader,
    equal,
    events,
    signal_at,
    toy_config,
    toy_learner,
    toy_train,
)


def poisoned(config, *updates):
    return toy_learner(config, objective=PoisonedCrossEntropy(*updates))


def test_nan_stops_before_the_update_and_dumps_its_data(tmp_path):
    config = toy_config()
    learner, before = poisoned(config, 6), {}
    learner.objective.set_update = lambda update: (
        setattr(learner.objective, "update", update),
        before.update({n: p.detach().clone() for n, p in learner.model.named_parameters()}),
    )
    with pytest.raises(
        ComputeError, match=r"update 6: loss nan, gradient norm nan; .*\nsamples \d+, .*\nlower"
    ) as info:
        toy_train(tmp_path, config, learner=learner)
    assert info.value.exit_code == 70
    assert all(torch.equal(p, before[name]) for name, p in learner.model.named_parameters())
    assert list(list_checkpoints(tmp_path / "checkpoints")) == [4]
    dump = tmp_path / "nonfinite/update-00000006-0"
    data = next(ToyLoader().updates(DataPosition(0, 5)))
    tensors = read_tensors(dump / "batches.safetensors")
    assert len(tensors) == 9 * len(data.batches)
    for number, batch in enumerate(data.batches):
        assert torch.equal(tensors[f"{number}.source.ids"], batch.source.ids)
        assert torch.equal(tensors[f"{number}.target.pos"], batch.target.pos)
        assert torch.equal(tensors[f"{number}.loss_mask"], batch.loss_mask)
    facts = json.loads((dump / "facts.json").read_text())
    assert facts["samples"] == [int(sample) for batch in data.batches for sample in batch.sample_ids]


def test_nan_can_be_skipped_up_to_max_skips(tmp_path):
    config = toy_config(on_nonfinite="skip", max_skips=2)
    result = toy_train(tmp_path / "a", config, learner=poisoned(config, 6, 9))
    assert result.update == 24
    assert all(w.isfinite().all() for w in result.weights.values())
    assert [record["update"] for record in events(tmp_path / "a", "nonfinite")] == [6, 9]
    with pytest.raises(ComputeError, match="like the 1 before it"):
        toy_train(tmp_path / "b", config, learner=poisoned(config, 6, 6, 6, 6))


def test_resuming_after_a_skip_gives_the_same_bits(tmp_path):
    config = toy_config(on_nonfinite="skip")
    whole = toy_train(tmp_path / "a", config, learner=poisoned(config, 6))
    stop = signal_at(9, signal.SIGTERM)
    with pytest.raises(Interrupted):
        toy_train(tmp_path / "b", config, learner=poisoned(config, 6), loader=stop)
    assert equal(whole.weights, toy_train(tmp_path / "b", config, learner=poisoned(config)).weights)


def test_signals_and_max_hours_stop_a_training_that_only_skips(tmp_path):
    config = toy_config(on_nonfinite="skip", max_skips=99)
    always = [6] * 200
    with pytest.raises(Interrupted, match="interrupted after update 5"):
        toy_train(tmp_path, config, learner=poisoned(config, *always), loader=signal_at(9, signal.SIGTERM))
    assert len(events(tmp_path, "nonfinite")) == 4  # at positions 6 to 9
    state = read_state(tmp_path / "checkpoints/update-00000005")
    assert state["progress"]["position"] == {"window": 0, "update": 9}
    late = toy_config(on_nonfinite="skip", max_skips=99, max_hours=1e-9)
    assert (toy_train(tmp_path, late, learner=poisoned(late, *always)).reason) == "max_hours"
    with pytest.raises(Interrupted, match="interrupted after update 0"):
        toy_train(tmp_path / "new", config, learner=poisoned(config, *[1] * 200), loader=signal_at(2, signal.SIGTERM))
    assert list_checkpoints(tmp_path / "new/checkpoints") == {}


def test_the_loss_scale_does_not_change_after_a_skipped_loss(tmp_path):
    config = toy_config(on_nonfinite="skip")
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    result = toy_train(tmp_path, config, learner=replace(poisoned(config, 6), scaler=scaler))
    assert result.update == 24
    assert scaler.get_scale() == 8.0  # the loss was not finite without it
