"""Capabilities of training objectives."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class ObjectiveConfigBase:
    """Capabilities of an objective's configuration; a kind overrides those that differ."""

    trains_encoder_only: ClassVar[bool] = False  # scores masked source tokens; there is no target side
    predicts_source: ClassVar[bool] = False  # scores each source token given the preceding ones
    passes_depend_on_data: ClassVar[bool] = False  # the number of forward passes of a micro-batch depends on its data
    needs_teacher_forcing: ClassVar[bool] = False  # compares states with those of a model that reads the true tokens

    samples_translations: ClassVar[bool] = False  # of the model, with the length limit of `search`
    needs_attention: ClassVar[bool] = False  # of all target tokens over the source
    needs_lexicon: ClassVar[bool] = False  # of the training corpora

    @property
    def teacher_model(self) -> Path | None:
        """Model folder or run of a teacher; None without one."""
        return None
