"""Training loop: results, early stopping, interruptions, damaged checkpoints and full disks."""

import math
import os
import shutil
import signal

import pytest
import torch

from mtkit.errors import Interrupted, ReadWriteError
from mtkit.training.checkpoints import checkpoint as checkpoints
from mtkit.training.checkpoints.averaging import average_checkpoints, translation_weights
from mtkit.training.checkpoints.checkpoint import list_checkpoints
from mtkit.training.config import CheckpointAverageConfig, RetentionConfig, ValidationConfig
from mtkit.training.decoder_inputs.config import LinearDecayConfig, ScheduledSamplingConfig
from mtkit.training.monitoring.validation import Validation
from mtkit.training.optimisers.config import AdamConfig
from mtkit.training.optimisers.schedule import ConstantConfig, PlateauConfig
from mtkit.training.progress import Progress
from tests.toy.training import ToyLoader, equal, events, signal_at, toy_config, toy_learner, toy_train, toy_validate


@pytest.mark.whole
def test_the_loss_falls(tmp_path):
    optimiser = AdamConfig(learning_rate=0.05)
    config = toy_config(max_updates=120, validate_every=60, optimiser=optimiser, schedule=ConstantConfig())
    result = toy_train(tmp_path, config)
    assert result.best.value < 0.2 < math.log(13)
    assert (result.finished, result.reason, result.update) == (True, "max_updates", 120)


def test_a_finished_training_returns_its_result_again_without_loading_data(tmp_path):
    first = toy_train(tmp_path, toy_config())
    loader = ToyLoader()
    again = toy_train(tmp_path, toy_config(), loader=loader)
    assert loader.positions == []
    assert equal(first.weights, again.weights)
    assert again.reason == "max_updates"


def test_early_stopping_selects_the_best_checkpoint(tmp_path):
    values = {6: 3.0, 12: 2.0, 18: 2.5, 24: 2.1, 30: 1.0}
    result = toy_train(
        tmp_path, toy_config(max_updates=60, patience=2), validate=lambda model, update: Validation(values[update])
    )
    assert (result.reason, result.update, result.best.update) == ("early_stopping", 24, 12)
    assert equal(result.weights, translation_weights(tmp_path / "checkpoints/update-00000012"))


def test_best_by_bleu(tmp_path):
    config = toy_config(validation=ValidationConfig(metric="bleu"))
    assert toy_train(tmp_path, config).best.update == 6


@pytest.mark.parametrize(("which", "chosen"), [("last", [16, 20, 22]), ("best", [6, 12, 18])])
def test_checkpoint_average(tmp_path, which, chosen):
    config = toy_config(max_updates=22, checkpoint_average=CheckpointAverageConfig(count=3, which=which))
    result = toy_train(tmp_path, config, validate=lambda model, update: Validation(float(update)))
    paths = [tmp_path / f"checkpoints/update-{update:08d}" for update in chosen]
    assert equal(result.weights, average_checkpoints(paths))


def test_an_average_of_the_last_has_the_end_of_a_training_that_stopped_early(tmp_path):
    average = CheckpointAverageConfig(count=2, which="last")
    config = toy_config(max_updates=60, patience=1, checkpoint_every=8, checkpoint_average=average)
    values = {6: 1.0, 12: 0.9, 18: 2.0}
    result = toy_train(tmp_path, config, validate=lambda model, update: Validation(values[update]))
    assert result.update == 18
    paths = [tmp_path / f"checkpoints/update-{update:08d}" for update in (16, 18)]
    assert equal(result.weights, average_checkpoints(paths))


def test_without_two_checkpoints_to_average_the_best_is_chosen(tmp_path):
    average = CheckpointAverageConfig(count=2, which="last")
    config = toy_config(max_updates=60, patience=1, checkpoint_every=50, checkpoint_average=average)
    result = toy_train(tmp_path, config, validate=lambda model, update: Validation(float(update)))
    assert (result.update, result.best.update) == (12, 6)
    assert equal(result.weights, translation_weights(tmp_path / "checkpoints/update-00000006"))


def test_validations_by_another_metric_are_not_compared(tmp_path):
    """By BLEU update 12 was best; by nll, from update 16 on, update 18 is, though each BLEU is below any nll."""
    bleu = toy_config(validation=ValidationConfig(metric="bleu"))
    with pytest.raises(Interrupted):
        toy_train(tmp_path, bleu, fingerprint="bleu", loader=signal_at(16, signal.SIGTERM))
    result = toy_train(tmp_path, toy_config(patience=2), fingerprint="nll", validate=by_distance_to_18)
    assert (result.reason, result.best.update) == ("max_updates", 18)
    assert [record["update"] for record in events(tmp_path, "metric_changed")] == [16]
    again = toy_train(tmp_path, toy_config(), fingerprint="another")
    assert again.best.update == 18  # a finished training keeps its choice


def by_distance_to_18(model, update):
    return Validation(1.0 + abs(update - 18))


def test_checkpoint_retention(tmp_path):
    config = toy_config(keep=RetentionConfig(last=1, best=1, every=8))
    toy_train(tmp_path, config, validate=lambda model, update: Validation(float(abs(update - 12))))
    assert list(list_checkpoints(tmp_path / "checkpoints")) == [8, 12, 16, 24]


def test_validation_uses_the_ema_and_restores_the_weights(tmp_path):
    learner, seen = toy_learner(toy_config()), []

    def validate(model, update):
        assert not model.training
        seen.append((model.mix.weight.detach().clone(), learner.ema.weights["mix.weight"].clone()))
        return toy_validate(model, update)

    toy_train(tmp_path, toy_config(), validate=validate, learner=learner)
    last = translation_weights(tmp_path / "checkpoints/update-00000024")
    assert torch.equal(seen[-1][0], last["mix.weight"])
    assert not torch.equal(seen[-1][1], last["mix.weight"])


@pytest.mark.whole
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_and_exits(tmp_path, number):
    handler = signal.getsignal(number)
    with pytest.raises(Interrupted, match="interrupted after update 9; run the same command again") as info:
        toy_train(tmp_path, toy_config(), loader=signal_at(9, number))
    assert info.value.exit_code == 128 + number
    assert signal.getsignal(number) == handler
    assert max(list_checkpoints(tmp_path / "checkpoints")) == 9
    assert events(tmp_path, "interrupted")[0]["signal"] == number
    assert equal(toy_train(tmp_path, toy_config()).weights, toy_train(tmp_path / "whole", toy_config()).weights)


def test_a_signal_interrupts_validation_which_is_repeated_on_resume(tmp_path):
    config = toy_config(schedule=PlateauConfig(warmup=0, patience=1))

    def interrupted(model, update):
        if update == 12:
            os.kill(os.getpid(), signal.SIGTERM)
        return toy_validate(model, update)

    with pytest.raises(Interrupted):
        toy_train(tmp_path, config, validate=interrupted)
    assert [record["update"] for record in events(tmp_path, "validation")] == [6]
    with pytest.raises(Interrupted):  # after that validation, and before the next regular checkpoint
        toy_train(tmp_path, config, loader=signal_at(1, signal.SIGTERM))
    shutil.rmtree(tmp_path / "checkpoints/update-00000013")
    assert equal(toy_train(tmp_path, config).weights, toy_train(tmp_path / "whole", config).weights)
    assert [record["update"] for record in events(tmp_path, "validation")] == [6, 12, 18, 24]


def test_a_checkpoint_without_the_time_of_validations_and_the_budget_is_read():
    state = Progress(update=3, seconds=5.0).to_json()
    del state["validation_seconds"], state["budget"]
    assert Progress.from_json(state) == Progress(update=3, seconds=5.0)


def test_max_hours_saves_an_unfinished_training_that_can_be_resumed(tmp_path):
    config = toy_config(max_hours=1e-9)
    result = toy_train(tmp_path, config)
    assert (result.finished, result.reason, result.update, result.weights) == (False, "max_hours", 1, {})
    assert list(list_checkpoints(tmp_path / "checkpoints")) == [1]
    assert equal(toy_train(tmp_path, toy_config()).weights, toy_train(tmp_path / "whole", toy_config()).weights)


def test_a_damaged_checkpoint_is_logged_and_the_previous_one_gives_the_same_bits(tmp_path):
    whole = toy_train(tmp_path, toy_config())
    (tmp_path / "checkpoints/update-00000024/model.safetensors").write_bytes(b"")
    again = toy_train(tmp_path, toy_config())
    assert equal(whole.weights, again.weights)
    assert "model.safetensors does not match its checksum" in events(tmp_path, "damaged")[0]["reason"]
    assert events(tmp_path, "resume")[0]["update"] == 20
    assert [record["update"] for record in events(tmp_path, "train")] == list(range(3, 25, 3))


@pytest.mark.whole
@pytest.mark.parametrize("write", [2, 4, 7])
def test_a_full_disk_stops_training_and_the_previous_checkpoint_loads(tmp_path, monkeypatch, write):
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


def test_memory_and_teacher_forcing_ratio_are_logged(tmp_path):
    sampling = ScheduledSamplingConfig(teacher_forcing_ratio=LinearDecayConfig(updates=10, end=0.0))
    toy_train(tmp_path, toy_config(max_updates=6, decoder_input=sampling), learner=toy_learner(toy_config()))
    first, second = events(tmp_path, "train")
    assert first["teacher_forcing_ratio"] == pytest.approx(0.8)
    assert second["teacher_forcing_ratio"] == pytest.approx(0.5)
    assert 0.05 < first["memory_gb"] <= second["memory_gb"]  # torch alone needs more
    assert toy_config().decoder_input.ratio_at(1) is None
