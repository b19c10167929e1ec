"""The union of kinds of noise that a recipe can name."""

from __future__ import annotations

from mtkit.corpus.noise.bart import BartNoiseConfig
from mtkit.corpus.noise.language_model import LanguageModelConfig
from mtkit.corpus.noise.mlm import MLMMaskingConfig
from mtkit.corpus.noise.span_corruption import SpanCorruptionConfig

NoiseConfig = SpanCorruptionConfig | BartNoiseConfig | MLMMaskingConfig | LanguageModelConfig
