"""The loop itself: what it does when something goes wrong, ends early, or has ended already."""

import json
import math
import os
import shutil
import signal

import pytest
import torch

from mtkit.errors import Interrupted, ReadWriteError
from mtkit.training.checkpoints import checkpoint as checkpoints
from mtkit.training.checkpoints.averaging import CheckpointAverageConfig, average_checkpoints, translation_weights
from mtkit.training.checkpoints.checkpoint import list_checkpoints
from mtkit.training.checkpoints.writer import KeepConfig
from mtkit.training.config import ValidationConfig, harmless_keys
from mtkit.training.decoder_inputs.scheduled_sampling import ScheduledSamplingConfig
from mtkit.training.decoder_inputs.teacher_forcing_ratio import LinearDecayConfig
from mtkit.training.monitoring.validation import Validation
from mtkit.training.optimisers.schedule import ConstantConfig, PlateauConfig
from mtkit.training.optimisers.torch_optimisers import AdamConfig
from tests.unit.training.toy_training import (
    ToyLoader,
    toy_config,
    toy_learner,
    toy_train,
    toy_validate,
)


def events(folder, name):
    records = map(json.loads, (folder / "log.jsonl").read_text().strip().split("\n"))
    return [record for record in records if record["event"] == name]


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_it_learns(tmp_path):
    optimiser = AdamConfig(learning_rate=0.05)
    config = toy_config(max_updates=120, validate_every=60, optimiser=optimiser, schedule=ConstantConfig())
    result = toy_train(tmp_path, config)
    assert result.best.value < 0.2 < math.log(13)
    assert (result.finished, result.reason, result.update) == (True, "max_updates", 120)


def test_ended_training_gives_its_result_again_without_drawing(tmp_path):
    first = toy_train(tmp_path, toy_config())
    loader = ToyLoader()
    again = toy_train(tmp_path, toy_config(), loader=loader)
    assert loader.drawn == []
    assert equal(first.weights, again.weights)
    assert again.reason == "max_updates"


def test_early_stopping_and_best(tmp_path):
    values = {6: 3.0, 12: 2.0, 18: 2.5, 24: 2.1, 30: 1.0}
    result = toy_train(
        tmp_path, toy_config(max_updates=60, patience=2), validate=lambda model, update: Validation(values[update])
    )
    assert (result.reason, result.update, result.best.update) == ("early_stopping", 24, 12)
    assert equal(result.weights, translation_weights(tmp_path / "checkpoints/update-00000012"))


def test_best_by_bleu(tmp_path):
    config = toy_config(validation=ValidationConfig(metric="bleu"))
    assert toy_train(tmp_path, config).best.update == 6


@pytest.mark.parametrize(("of", "chosen"), [("last", [16, 20, 22]), ("best", [6, 12, 18])])
def test_final_average(tmp_path, of, chosen):
    config = toy_config(max_updates=22, average=CheckpointAverageConfig(checkpoints=3, of=of))
    result = toy_train(tmp_path, config, validate=lambda model, update: Validation(float(update)))
    paths = [tmp_path / f"checkpoints/update-{update:08d}" for update in chosen]
    assert equal(result.weights, average_checkpoints(paths))


def test_validations_by_another_measure_are_not_compared(tmp_path):
    """By BLEU update 12 was best; by nll, from update 16 on, update 18 is, though each BLEU is below any nll."""
    bleu = toy_config(validation=ValidationConfig(metric="bleu"))
    with pytest.raises(Interrupted):
        toy_train(tmp_path, bleu, measure="bleu", loader=signal_at(16, signal.SIGTERM))
    result = toy_train(tmp_path, toy_config(patience=2), measure="nll", validate=by_distance_to_18)
    assert (result.reason, result.best.update) == ("max_updates", 18)
    assert [record["update"] for record in events(tmp_path, "measure")] == [16]
    assert toy_train(tmp_path, toy_config(), measure="another").best.update == 18  # it has ended, and chosen


def by_distance_to_18(model, update):
    return Validation(1.0 + abs(update - 18))


def test_which_checkpoints_stay(tmp_path):
    config = toy_config(keep=KeepConfig(last=1, best=1, every=8))
    toy_train(tmp_path, config, validate=lambda model, update: Validation(float(abs(update - 12))))
    assert list(list_checkpoints(tmp_path / "checkpoints")) == [8, 12, 16, 24]


def test_validation_sees_the_average_and_leaves_the_weights(tmp_path):
    learner, seen = toy_learner(toy_config()), []

    def validate(model, update):
        assert not model.training
        seen.append((model.mix.weight.detach().clone(), learner.average.tensors()["mix.weight"].clone()))
        return toy_validate(model, update)

    toy_train(tmp_path, toy_config(), validate=validate, learner=learner)
    last = translation_weights(tmp_path / "checkpoints/update-00000024")
    assert torch.equal(seen[-1][0], last["mix.weight"])
    assert not torch.equal(seen[-1][1], last["mix.weight"])


def signal_at(draw, number):
    class Signalling(ToyLoader):
        def updates(self, start):
            for count, update in enumerate(super().updates(start), 1):
                if count == draw:
                    os.kill(os.getpid(), number)
                yield update

    return Signalling()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_and_ends(tmp_path, number):
    handler = signal.getsignal(number)
    with pytest.raises(Interrupted, match="interrupted after update 9; the same command goes on") as info:
        toy_train(tmp_path, toy_config(), loader=signal_at(9, number))
    assert info.value.exit_code == 128 + number
    assert signal.getsignal(number) == handler
    assert max(list_checkpoints(tmp_path / "checkpoints")) == 9
    assert events(tmp_path, "interrupted")[0]["signal"] == number
    assert equal(toy_train(tmp_path, toy_config()).weights, toy_train(tmp_path / "whole", toy_config()).weights)


def test_a_signal_cuts_validation_off_and_it_is_made_up_for(tmp_path):
    config = toy_config(schedule=PlateauConfig(warmup=0, patience=1))

    def killing(model, update):
        if update == 12:
            os.kill(os.getpid(), signal.SIGTERM)
        return toy_validate(model, update)

    with pytest.raises(Interrupted):
        toy_train(tmp_path, config, validate=killing)
    assert [record["update"] for record in events(tmp_path, "validation")] == [6]
    with pytest.raises(Interrupted):  # after that validation, and before the next regular checkpoint
        toy_train(tmp_path, config, loader=signal_at(1, signal.SIGTERM))
    shutil.rmtree(tmp_path / "checkpoints/update-00000013")
    assert equal(toy_train(tmp_path, config).weights, toy_train(tmp_path / "whole", config).weights)
    assert [record["update"] for record in events(tmp_path, "validation")] == [6, 12, 18, 24]


def test_out_of_hours_is_saved_not_finished_and_goes_on(tmp_path):
    config = toy_config(max_hours=1e-9)
    result = toy_train(tmp_path, config)
    assert (result.finished, result.reason, result.update, result.weights) == (False, "max_hours", 1, {})
    assert list(list_checkpoints(tmp_path / "checkpoints")) == [1]
    assert equal(toy_train(tmp_path, toy_config()).weights, toy_train(tmp_path / "whole", toy_config()).weights)


def test_damage_is_named_and_the_checkpoint_before_gives_the_same_bits(tmp_path):
    whole = toy_train(tmp_path, toy_config())
    (tmp_path / "checkpoints/update-00000024/model.safetensors").write_bytes(b"")
    again = toy_train(tmp_path, toy_config())
    assert equal(whole.weights, again.weights)
    assert "model.safetensors is not as it was written" in events(tmp_path, "damaged")[0]["reason"]
    assert events(tmp_path, "resume")[0]["update"] == 20
    assert [record["update"] for record in events(tmp_path, "train")] == list(range(3, 25, 3))


@pytest.mark.parametrize("write", [2, 4, 7])
def test_a_full_disk_ends_training_and_the_old_checkpoint_loads(tmp_path, monkeypatch, write):
    count, real = 0, checkpoints.write_tensors

    def full(path, tensors):
        nonlocal count
        count += 1
        if count >= write:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device", str(path))
        return real(path, tensors)

    monkeypatch.setattr(checkpoints, "write_tensors", full)
    with pytest.raises(ReadWriteError, match="no space left") as info:
        toy_train(tmp_path, toy_config())
    assert info.value.exit_code == 74
    monkeypatch.undo()
    assert equal(toy_train(tmp_path, toy_config()).weights, toy_train(tmp_path / "whole", toy_config()).weights)


def test_memory_and_sampling_rate_are_logged(tmp_path):
    sampling = ScheduledSamplingConfig(decay=LinearDecayConfig(updates=10, end=0.0))
    toy_train(tmp_path, toy_config(max_updates=6, decoder_input=sampling), learner=toy_learner(toy_config()))
    first, second = events(tmp_path, "train")
    assert (first["truth_rate"], second["truth_rate"]) == (pytest.approx(0.8), pytest.approx(0.5))
    assert 0.05 < first["memory_gb"] <= second["memory_gb"]  # torch alone takes more
    assert toy_config().truth_rate(1) is None


def test_keys_that_may_change():
    assert "max_updates" not in harmless_keys(toy_config())
    assert "max_updates" in harmless_keys(toy_config(schedule=ConstantConfig()))
    assert "validate_every" in harmless_keys(toy_config())
    assert "validate_every" not in harmless_keys(toy_config(schedule=PlateauConfig()))


def test_bleu_needs_something_decoded():
    with pytest.raises(ValueError, match="set sentences above 0"):
        ValidationConfig(metric="bleu", sentences=0)
