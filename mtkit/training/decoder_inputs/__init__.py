"""TODO."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.training.decoder_inputs.experimental.confidence_aware import ConfidenceAwareConfig
from mtkit.training.decoder_inputs.experimental.switch_out import SwitchOutConfig
from mtkit.training.decoder_inputs.experimental.word_dropout import WordDropoutConfig
from mtkit.training.decoder_inputs.parallel_sampling import ParallelSamplingConfig
from mtkit.training.decoder_inputs.scheduled_sampling import ScheduledSamplingConfig
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcingConfig

DecoderInputConfig = Annotated[
    TeacherForcingConfig
    | ScheduledSamplingConfig
    | ParallelSamplingConfig
    | ConfidenceAwareConfig
    | WordDropoutConfig
    | SwitchOutConfig,
    Field(discriminator="kind"),
]
