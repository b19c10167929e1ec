"""Keys of `training:` that exclude each other, and those that may change on resume."""

import pytest

from mtkit.training.config import TrainingConfig, ValidationConfig, resumable_keys
from mtkit.training.decoder_inputs.config import ScheduledSamplingConfig
from mtkit.training.objectives.config import MinimumRiskConfig
from mtkit.training.optimisers.config import AdafactorConfig, MuonConfig
from mtkit.training.optimisers.schedule import ConstantConfig, PlateauConfig, WarmupStableDecayConfig
from tests.toy.training import toy_config


def test_max_updates_may_change_on_resume_unless_the_schedule_ends_there():
    assert "max_updates" not in resumable_keys(toy_config())
    assert "max_updates" not in resumable_keys(toy_config(schedule=WarmupStableDecayConfig()))
    assert "max_updates" in resumable_keys(toy_config(schedule=ConstantConfig()))


def test_validation_may_change_on_resume_unless_the_schedule_depends_on_it():
    assert {"validate_every", "validation"} <= resumable_keys(toy_config())
    assert not {"validate_every", "validation"} & resumable_keys(toy_config(schedule=PlateauConfig()))


def test_keys_that_change_what_is_learned_may_not_change_on_resume():
    keys = resumable_keys(toy_config())
    assert {"log_every", "patience", "keep", "parallel", "compile", "checkpoint_average", "max_hours"} <= keys
    assert not keys & {"seed", "optimiser", "schedule", "objective", "batch_tokens", "precision", "ema", "clip_norm"}


def test_bleu_needs_decoded_sentences():
    with pytest.raises(ValueError, match="set sentences above 0"):
        ValidationConfig(metric="bleu", sentences=0)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"optimiser": MuonConfig()},
            "optimiser.kind muon needs whole ones; use one of adam, adamw, .*lion.*, or parallel ddp",
        ),
        ({"optimiser": AdafactorConfig()}, "optimiser.kind adafactor needs whole ones"),
        ({"precision": "fp16"}, "precision fp16 needs; use bf16, or parallel ddp"),
        ({"compile": True}, "set compile to false, or parallel to ddp"),
    ],
)
def test_fsdp_refuses_what_needs_whole_weights(keys, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(parallel="fsdp", **keys)
    assert TrainingConfig(parallel="ddp", **keys).parallel == "ddp"


def test_passes_are_variable_if_decoder_input_or_objective_say_so():
    assert not toy_config().has_variable_passes
    assert toy_config(decoder_input=ScheduledSamplingConfig()).has_variable_passes
    assert toy_config(objective=MinimumRiskConfig()).has_variable_passes
