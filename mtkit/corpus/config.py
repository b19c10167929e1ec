"""What a recipe says about its corpus."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mtkit.corpus.cleaning import CleaningConfig
from mtkit.corpus.noise import NoiseConfig

TestName = Annotated[  # it names a file: hyps/TEST.txt
    str, Field(pattern=r"^\w[\w.-]*$", description="a name of letters, digits, _ and, after the first, . and -")
]
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
class Text:
    """A text file in one language, which is learned from by restoring it: `corpus.noise` says what is done to it."""

    text: Path

    @property
    def src(self) -> Path:
        """What the noise is put on."""
        return self.text

    @property
    def tgt(self) -> Path:
        """What is to be restored."""
        return self.text


@dataclass(frozen=True, kw_only=True)
class TrainText(Text):
    """A training corpus in one language."""

    weight: Weight | None = None  # as that of TrainFiles


AnyFiles = Files | TrainFiles | Text | TrainText


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """The text of a system, of pairs or in one language.

    Without weights, every training sample is seen once per epoch. With them, the corpora are mixed in that
    proportion, each going round and round at its own pace.
    """

    src_lang: Annotated[str, Field(min_length=1)]
    tgt_lang: Annotated[str, Field(min_length=1)]
    train: Annotated[list[TrainFiles | TrainText], Field(min_length=1)]
    root: Path | None = None  # the paths below are relative to it; itself relative to the recipe
    valid: Files | Text | None = None  # without it there is no early stopping and no choice of the best checkpoint
    test: dict[TestName, Files] = field(default_factory=dict)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)  # of the training corpora only
    noise: NoiseConfig | None = None  # what is done to text in one language, for training to undo

    def __post_init__(self) -> None:
        self._noise_fits()
        weighted = [files.weight is not None for files in self.train]
        if any(weighted) and not all(weighted):
            missing = weighted.index(False)
            raise ValueError(
                f"train.{missing}.weight: missing, while another training corpus has one; give all a weight, or none"
            )

    def _noise_fits(self) -> None:
        texts = [f"train.{number}" for number, files in enumerate(self.train) if isinstance(files, Text)]
        texts += ["valid"] if isinstance(self.valid, Text) else []
        if texts and self.noise is None:
            raise ValueError(
                f"{texts[0]}: text in one language is learned from by restoring it; say by corpus.noise what is done "
                "to it, such as {kind: spans}, or give src and tgt"
            )
        if self.noise is None:
            return
        if not texts:
            raise ValueError(
                "noise: there is no text in one language to put it on; remove it, or train on {text: FILE}"
            )
        pairs = [f"train.{number}" for number, files in enumerate(self.train) if isinstance(files, TrainFiles)]
        pairs += ["valid"] if isinstance(self.valid, Files) else []
        if self.noise.kind == "masks" and pairs:
            raise ValueError(
                f"{pairs[0]}: a pair of texts has no place beside masked text, which trains an encoder alone; give "
                "{text: FILE}, or another noise.kind"
            )
