"""Noise on monolingual text: the source is a corrupted sentence, the target its restoration.

noise            the protocol of noise functions, their vocabulary, and the corpus that applies one
row_rng          random numbers for ragged rows, reproducible for each sentence
mlm              masked language modelling (BERT), for the encoder alone
span_corruption  removed spans and sentinels (T5)
bart             infilling, masking, deletion and sentence permutation (BART)
language_model   no source at all, for a language model
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.corpus.noise.bart import BartNoiseConfig
from mtkit.corpus.noise.language_model import LanguageModelConfig
from mtkit.corpus.noise.mlm import MLMMaskingConfig
from mtkit.corpus.noise.span_corruption import SpanCorruptionConfig

NoiseConfig = Annotated[
    SpanCorruptionConfig | BartNoiseConfig | MLMMaskingConfig | LanguageModelConfig, Field(discriminator="kind")
]
