"""The `corpus` section of a recipe: files, languages, cleaning and noise."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated

from mtkit.config import Limits, config
from mtkit.corpus.noise.config import NoiseConfig
from mtkit.text.lines import Text, text_of_limit
from mtkit.text.source_prefix import SourcePrefix, merge_tags

NAME_OF_TEST = "a name of at most 60 letters, digits, _ and, after the first, . and -"
TestName = Annotated[  # it names a file: hyps/TEST.txt, in at most 255 bytes
    str, Limits(pattern=r"^\w[\w.-]{0,59}\Z", description=NAME_OF_TEST)
]


@config
class TextPair(SourcePrefix):
    """Two text files with the same number of lines; line n of one is the translation of line n of the other."""

    # Text file of the source language, one sentence per line, plain or compressed (gz, bz2, xz, zst).
    src: Path
    # Text file with the translation of `src`, line by line.
    tgt: Path


@config
class ParallelFiles(TextPair):
    """A test or validation set of sentence pairs."""

    # Language code of `tgt`, which selects the tokenizer of BLEU. Default: null is `corpus.tgt_lang`.
    tgt_lang: Annotated[str, Limits(min_length=1)] | None = None


@config
class TrainingShare:
    """Share of a training corpus that is read."""

    # Share of the samples that come from these files, relative to the other corpora. Default: null reads each line once
    # an epoch, so that no line is preferred.
    weight: Annotated[float, Limits(gt=0)] | None = None
    # Number of lines to use, evenly spaced over the file, before cleaning; the lines of twice the limit contain them.
    # Default: null uses all lines.
    limit: Annotated[int, Limits(gt=0)] | None = None


@config
class TrainParallelFiles(TrainingShare, TextPair):
    """One parallel training corpus."""


@config
class MonolingualFile(SourcePrefix):
    """A text file in one language, for training on its restoration: `corpus.noise` corrupts the source side."""

    # Text file in one language, from which `corpus.noise` makes source and target.
    text: Path

    @property
    def src(self) -> Path:
        """The text that noise is applied to."""
        return self.text

    @property
    def tgt(self) -> Path:
        """The text to restore."""
        return self.text


@config
class TrainMonolingualFile(TrainingShare, MonolingualFile):
    """A training corpus in one language."""


def training_text(files: TrainParallelFiles | TrainMonolingualFile) -> tuple[Text, Text]:
    """Return the source and target lines of a training corpus."""
    return text_of_limit(files.src, files.limit), text_of_limit(files.tgt, files.limit)


def has_training_text(corpus: CorpusConfig) -> bool:
    """Return whether all files of the training corpora exist."""
    return all(path.is_file() for files in corpus.train for path in (files.src, files.tgt))


CorpusFiles = ParallelFiles | TrainParallelFiles | MonolingualFile | TrainMonolingualFile


@config
class CleaningConfig:
    """Limits on sentence pairs, in tokens. Pairs that exceed them are dropped and counted; nothing is truncated.

    The defaults keep all of Multi30k. They remove pairs that are no translations, and bound memory.
    """

    # Largest number of tokens of a side; longer pairs are removed. Default: attention costs the square of the length,
    # and longer lines are rarely single sentences.
    max_length: Annotated[int, Limits(gt=0)] = 256
    # Largest ratio of the longer to the shorter side, in tokens; other pairs are removed as wrongly aligned. Default:
    # that of Moses' clean-corpus-n.perl.
    max_ratio: Annotated[float, Limits(ge=1)] = 9.0
    # Tokens of the longer side above which `max_ratio` applies. Default: the ratio of short lines says little about
    # their alignment.
    min_length_for_ratio: Annotated[int, Limits(ge=0)] = 20


@config
class CorpusConfig:
    """The text of a system, as sentence pairs or in one language.

    Without weights, every training sample is seen once per epoch. With weights, the corpora are mixed in that
    proportion, and each corpus is repeated at its own pace.
    """

    # Code of the source language, such as en.
    src_lang: Annotated[str, Limits(min_length=1)]
    # Code of the target language, such as de; it also selects the tokenizer of BLEU.
    tgt_lang: Annotated[str, Limits(min_length=1)]
    # Files of the training corpora.
    train: Annotated[list[TrainParallelFiles | TrainMonolingualFile], Limits(min_length=1)]
    # Folder to which the paths below are relative; itself relative to the recipe. Default: null is the folder of the
    # recipe.
    root: Path | None = None
    # Validation set, or a list with one set per direction. Default: null trains without one, so that there is no early
    # stopping and no choice of the best checkpoint.
    valid: ParallelFiles | MonolingualFile | Annotated[list[ParallelFiles], Limits(min_length=1)] | None = None
    # Test sets by name; the finished model translates them, and they are scored. Default: none, since a training needs
    # none.
    test: dict[TestName, ParallelFiles] = field(default_factory=dict)
    # Limits on the sentence pairs of the training corpora; other sets stay as they are. Default: removes what is hardly
    # a translation, a few lines of most corpora.
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    # Noise that is applied to text in one language, for training to undo. Default: null, since sentence pairs need
    # none.
    noise: NoiseConfig | None = None

    @property
    def valid_sets(self) -> list[ParallelFiles | MonolingualFile]:
        """All validation sets."""
        return list(self.valid) if isinstance(self.valid, list) else [] if self.valid is None else [self.valid]

    def language_of_target(self, files: CorpusFiles) -> str:
        """Target language of a test or validation set."""
        return (files.tgt_lang if isinstance(files, ParallelFiles) else None) or self.tgt_lang

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of the training corpora, in order of appearance."""
        return merge_tags((), (files.tag for files in self.train))

    @property
    def requires_tag(self) -> bool:
        """True if every training corpus has a tag, so that the model never reads a source without one."""
        return all(files.tag is not None for files in self.train)

    @property
    def is_language_model(self) -> bool:
        """True if no training sample has a source, so that the model is a language model."""
        has_source = self.noise is None or self.noise.has_source
        return not has_source and all(isinstance(files, MonolingualFile) for files in self.train)

    def __post_init__(self) -> None:
        self._check_noise()
        self._check_tags()
        weighted = [files.weight is not None for files in self.train]
        if any(weighted) and not all(weighted):
            missing = weighted.index(False)
            raise ValueError(
                f"train.{missing}.weight: missing, while another training corpus has one; give all a weight, or none"
            )

    def _check_tags(self) -> None:
        try:
            tags = self.tags
        except ValueError as error:
            raise ValueError(f"train: {error}") from error
        held_out = {f"valid.{number}": files for number, files in enumerate(self.valid_sets)}
        held_out |= {f"test.{name}": files for name, files in self.test.items()}
        for name, files in held_out.items():
            place = name if isinstance(self.valid, list) else name.replace("valid.0", "valid")
            if files.tag is None and self.requires_tag:
                raise ValueError(
                    f"{place}.tag: missing, while every training corpus has one; give one of {_listed(tags)}"
                )
            if files.tag is not None and files.tag not in tags:
                known = f"they have {_listed(tags)}" if tags else "give the training corpora tags too"
                raise ValueError(f"{place}.tag: {files.tag!r} is the tag of no training corpus; {known}")

    def _check_noise(self) -> None:
        texts = [f"train.{number}" for number, files in enumerate(self.train) if isinstance(files, MonolingualFile)]
        texts += ["valid" for files in self.valid_sets if isinstance(files, MonolingualFile)]
        if texts and self.noise is None:
            raise ValueError(
                f"{texts[0]}: text in one language needs corpus.noise, such as {{kind: span_corruption}}; add it, or "
                "give src and tgt"
            )
        if self.noise is None:
            return
        if not texts:
            raise ValueError(
                "noise: it applies to text in one language only, and there is none; remove it, or train on {text: FILE}"
            )
        pairs = [f"train.{number}" for number, files in enumerate(self.train) if isinstance(files, TrainParallelFiles)]
        pairs += ["valid" for files in self.valid_sets if isinstance(files, ParallelFiles)]
        texts = [f"train.{n}" for n, files in enumerate(self.train) if files.tag or files.prefix]
        if self.noise.trains_encoder_only and texts:
            raise ValueError(
                f"{texts[0]}: tag and prefix cannot be combined with noise.kind {self.noise.kind}, which predicts the "
                "tokens of the source at their own positions; remove them, or choose another noise.kind"
            )
        if self.noise.trains_encoder_only and pairs:
            raise ValueError(
                f"{pairs[0]}: sentence pairs cannot be combined with noise.kind {self.noise.kind}, which trains the "
                "encoder alone; give {text: FILE}, or another noise.kind"
            )
        if self.is_language_model and (held_out := [*pairs, *(f"test.{name}" for name in self.test)]):
            raise ValueError(
                f"{held_out[0]}: a language model, which is trained on {{text: FILE}} with noise.kind "
                f"{self.noise.kind} alone, translates no sentence pairs; give text as valid, and no test sets"
            )


def _listed(tags: tuple[str, ...]) -> str:
    return ", ".join(sorted(tags))
