"""Decoder inputs: the tokens that the decoder reads in training.

interface              the protocol of decoder inputs, and the ids of the target vocabulary
teacher_forcing        the true tokens
scheduled_sampling     at times the model's own predictions, step by step
parallel_sampling      at times the model's own predictions, in whole passes of the decoder
teacher_forcing_ratio  schedules of the probability of the true token
token_sampler          a token from the logits (argmax, multinomial, Gumbel-max)
target_tokens          replacing tokens of the decoder input
no_grad                forward passes without gradient inside one with gradient
experimental/          confidence-aware scheduled sampling, word dropout, SwitchOut
"""

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
