"""What a recipe says about its corpus."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mtkit.corpus.cleaning import CleaningConfig

TestName = Annotated[str, Field(pattern=r"^\w[\w.-]*$")]  # it names a file: hyps/TEST.txt
Weight = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, kw_only=True)
class Files:
    """Two text files of equally many lines; line n of one translates line n of the other."""

    src: Path
    tgt: Path


@dataclass(frozen=True, kw_only=True)
class TrainFiles:
    """One training corpus."""

    src: Path
    tgt: Path
    weight: Weight | None = None  # its share of the samples drawn, relative to the others'; None: draw all evenly


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """The parallel text of a system.

    Without weights, every training sample is seen once per epoch. With them, the corpora are mixed in that
    proportion, each going round and round at its own pace.
    """

    src_lang: Annotated[str, Field(min_length=1)]
    tgt_lang: Annotated[str, Field(min_length=1)]
    train: Annotated[list[TrainFiles], Field(min_length=1)]
    root: Path | None = None  # the paths below are relative to it; itself relative to the recipe
    valid: Files | None = None  # without it there is no early stopping and no choice of the best checkpoint
    test: dict[TestName, Files] = field(default_factory=dict)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)  # of the training corpora only

    def __post_init__(self) -> None:
        weighted = [files.weight is not None for files in self.train]
        if any(weighted) and not all(weighted):
            missing = weighted.index(False)
            raise ValueError(
                f"train.{missing}.weight: missing, while another training corpus has one; give all a weight, or none"
            )
