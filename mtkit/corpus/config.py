"""The `corpus` section of a recipe: files, languages, cleaning and noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeVar

from mtkit.config import Limits, config
from mtkit.corpus.filters.config import FilterConfig
from mtkit.text.lines import Text, TextSubset
from mtkit.text.source_prefix import SourcePrefix, merge_tags

NAME_OF_TEST = "a name of at most 60 letters, digits, _ and, after the first, . and -"
TestName = Annotated[  # it names a file: hyps/TEST.txt, in at most 255 bytes
    str, Limits(pattern=r"^\w[\w.-]{0,59}\Z", description=NAME_OF_TEST)
]


if TYPE_CHECKING:
    from mtkit.documents.pair_lines import PairLines

T = TypeVar("T")


@config
class TextPair(SourcePrefix):
    """Two text files with the same number of lines; line n of one is the translation of line n of the other."""

    # Text file of the source language, one sentence per line, plain or compressed (gz, bz2, xz, zst).
    src: Path
    # Text file with the translation of `src`, line by line.
    tgt: Path

    @property
    def given(self) -> list[Path]:
        """The files that the user has."""
        return [self.src, self.tgt]


@config
class PairDocument(SourcePrefix):
    """Text with both sides in one file (tsv, csv, xlsx, jsonl, tmx, xliff, po), or in several; read as lines.

    The lines are extracted once, and again when a file has changed.
    """

    # FILE; or FILE#SRC,TGT with the columns, keys or languages of the two sides; or a pattern, such as "data/*.tmx"; or
    # the common beginning of two files of lines: train, of train.de and train.en; or a name in an index of corpora,
    # such as sacrebleu:wmt14/full or opus:TED2020, which mtkit fetch downloads.
    pairs: Path
    # Encoding of the file, such as windows-1252. Default: null is that which the file declares, or UTF-8.
    encoding: str | None = None
    # Folder of the lines. Default: null is a hidden one beside the file, so that several recipes share it.
    lines_folder: Path | None = None

    @property
    def lines(self) -> PairLines:
        """The text as lines."""
        from mtkit.documents.pair_lines import PairLines  # with all readers of documents, which few recipes need

        return PairLines(self.pairs, (self.src_lang or "", self.tgt_lang or ""), self.encoding, self.lines_folder)

    @property
    def given(self) -> list[Path]:
        """The files that the user has."""
        return self.lines.given

    @property
    def src(self) -> Path:
        """The sources."""
        return self.lines.files[0]

    @property
    def tgt(self) -> Path:
        """Their translations."""
        return self.lines.files[1]


SentencePairs = TextPair | PairDocument  # by people; of a recipe


@config
class ParallelFiles(TextPair):
    """A test or validation set of sentence pairs."""


@config
class HeldOutDocument(PairDocument):
    """A test or validation set with both sides in one file."""


HeldOutPairs = ParallelFiles | HeldOutDocument


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
class TrainDocument(TrainingShare, PairDocument):
    """One parallel training corpus with both sides in one file."""


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

    @property
    def given(self) -> list[Path]:
        """The file that the user has."""
        return [self.text]


@config
class TrainMonolingualFile(TrainingShare, MonolingualFile):
    """A training corpus in one language."""


SOURCE, TARGET = "source.txt", "target.txt"  # files of synthetic text, see pipeline/synthetic_text.py


@config
class TrainBacktranslated(TrainingShare, SourcePrefix):
    """Text in the target language, whose sources a model makes before the training (back-translation)."""

    # Text file in the target language, one sentence per line, plain or compressed.
    mono: Path
    # Model folder or run folder that translates from the target language to the source language.
    backtranslate: Path
    # Temperature at which sources are sampled. Default: null searches for the most probable one, which is better for
    # small corpora; sampling is for millions of pairs (Edunov et al. 2018, https://arxiv.org/abs/1808.09381, table 1).
    sample: Annotated[float, Limits(gt=0)] | None = None
    # Drop, blank and reorder words of the sources (Edunov et al. 2018, sec. 3). Default: false, as for `sample`.
    noise: bool = False
    # Folder of the pairs. Default: null is the name of `mono` with .synthetic behind it, so that several recipes share
    # them.
    output: Path | None = None

    @property
    def folder(self) -> Path:
        """Folder of the pairs."""
        return self.output or self.mono.with_name(f"{self.mono.name}.synthetic")

    @property
    def given(self) -> list[Path]:
        """The file that the user has."""
        return [self.mono]

    @property
    def src(self) -> Path:
        """The sources that the model made."""
        return self.folder / SOURCE

    @property
    def tgt(self) -> Path:
        """Their lines of the text."""
        return self.folder / TARGET


TrainFiles = TrainParallelFiles | TrainDocument | TrainMonolingualFile | TrainBacktranslated


def training_text(files: TrainFiles) -> tuple[Text, Text]:
    """The source and target lines of a training corpus."""
    if files.limit is None:
        return files.src, files.tgt
    return TextSubset(files.src, files.limit), TextSubset(files.tgt, files.limit)


def has_training_text(corpus: CorpusConfig) -> bool:
    """Return whether all files of the training corpora exist."""
    return all(path.is_file() for files in corpus.train for path in (files.src, files.tgt))


CorpusFiles = TrainFiles | HeldOutPairs | MonolingualFile


def require_corpora(files: Iterable[CorpusFiles]) -> None:
    """Check that the corpora that an index names are there; errors as `PairLines.require`."""
    for each in files:
        if isinstance(each, PairDocument):
            each.lines.require()


def extract_lines(
    files: Iterable[CorpusFiles], notify: Callable[[str], None] = lambda sentence: None, *, only_existing: bool = False
) -> None:
    """Extract the lines of texts that have both sides in one file; arguments and errors as `PairLines.extract`.

    Args:
        only_existing: leave out texts without a file.
    """
    for each in files:
        if isinstance(each, PairDocument) and not (only_existing and not all(path.is_file() for path in each.given)):
            each.lines.extract(notify)


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


Rate = Annotated[float, Limits(ge=0, lt=1)]
Probability = Annotated[float, Limits(ge=0, le=1)]


class NoiseConfigBase:
    """Configuration of noise."""

    builds: ClassVar[str]  # class that `construct` makes of the config and a NoiseVocab
    trains_encoder_only: ClassVar[bool] = False
    has_source: ClassVar[bool] = True


@config
class SpanCorruptionConfig(NoiseConfigBase):
    """Remove spans and predict them (see SpanCorruption); targets are short, so that an update is cheap."""

    kind: Literal["span_corruption"] = "span_corruption"
    builds: ClassVar[str] = "corpus.noise:SpanCorruption"
    # Share of the tokens that are removed. Default: Raffel et al. 2020, table 6.
    noise_density: Annotated[float, Limits(gt=0, lt=1)] = 0.15
    # Mean length of a removed span in tokens. Default: Raffel et al. 2020, table 7.
    mean_span_length: Annotated[float, Limits(ge=1)] = 3.0


@config
class BartNoiseConfig(NoiseConfigBase):
    """Fill gaps and restore the order (see BartNoise); the target is the whole text."""

    kind: Literal["bart"] = "bart"
    builds: ClassVar[str] = "corpus.noise:BartNoise"
    # Share of the tokens that are removed in spans, with one mask for each span (text infilling). Default: Lewis et al.
    # 2020, sec. 5.1.
    infilling_rate: Rate = 0.3
    # Mean length of a removed span in tokens; lengths are Poisson distributed. Default: Lewis et al. 2020, sec. 2.2.
    mean_span_length: Annotated[float, Limits(gt=0, le=50)] = 3.0
    # Share of the tokens that are masked one by one (token masking). Default: 0, because infilling masks already.
    masking_rate: Rate = 0.0
    # Share of the tokens that are removed without a mask (token deletion). Default: 0; the paper's model has infilling
    # and permutation alone.
    deletion_rate: Rate = 0.0
    # Shuffle the sentences of a line that has several. Default: true, as in the paper's model.
    permute_sentences: bool = True

    def __post_init__(self) -> None:
        if not (self.infilling_rate or self.masking_rate or self.deletion_rate or self.permute_sentences):
            raise ValueError("infilling_rate: all noise is turned off; set one of the rates above 0")


@config
class MLMMaskingConfig(NoiseConfigBase):
    """Mask tokens (see MLMMasking); for training.objective.kind masked_lm."""

    kind: Literal["mlm"] = "mlm"
    builds: ClassVar[str] = "corpus.noise:MLMMasking"
    trains_encoder_only: ClassVar[bool] = True
    # Share of the tokens that are predicted. Default: BERT's.
    masking_rate: Annotated[float, Limits(gt=0, le=1)] = 0.15
    # Share of the predicted tokens that the mask token replaces. Default: BERT's.
    mask_replace_prob: Probability = 0.8
    # Share of the predicted tokens that a random token replaces; the others stay as they are. Default: BERT's.
    random_replace_prob: Probability = 0.1

    def __post_init__(self) -> None:
        if self.mask_replace_prob + self.random_replace_prob > 1:
            raise ValueError(
                f"random_replace_prob: {self.random_replace_prob} and mask_replace_prob {self.mask_replace_prob} sum "
                "to more than 1; lower one"
            )


@config
class LanguageModelConfig(NoiseConfigBase):
    """Predict each text from an empty source (see EmptySource); a language model if all training text is such text."""

    kind: Literal["language_model"] = "language_model"
    builds: ClassVar[str] = "corpus.noise:EmptySource"
    has_source: ClassVar[bool] = False


NoiseConfig = SpanCorruptionConfig | BartNoiseConfig | MLMMaskingConfig | LanguageModelConfig


@config
class CorpusConfig:
    """The text of a system, as sentence pairs or in one language.

    Without weights, every training sample is seen once per epoch. With weights or a temperature, the corpora are mixed
    in that proportion, and each corpus is repeated at its own pace.
    """

    # Code of the source language, such as en.
    src_lang: Annotated[str, Limits(min_length=1)]
    # Code of the target language, such as de; it also selects the tokenizer of BLEU.
    tgt_lang: Annotated[str, Limits(min_length=1)]
    # Files of the training corpora.
    train: Annotated[list[TrainFiles], Limits(min_length=1)]
    # Folder to which the paths below are relative; itself relative to the recipe. Default: null is the folder of the
    # recipe.
    root: Path | None = None
    # Validation set, or a list with one set per direction. Default: null trains without one, so that there is no early
    # stopping and no choice of the best checkpoint.
    valid: HeldOutPairs | MonolingualFile | Annotated[list[HeldOutPairs], Limits(min_length=1)] | None = None
    # Test sets by name; the finished model translates them, and they are scored. Default: none, since a training needs
    # none.
    test: dict[TestName, HeldOutPairs] = field(default_factory=dict)
    # Begin each source and each target with a token of its language, `src_lang` and `tgt_lang` of its files, as in
    # M2M-100 and NLLB. Default: false; a model of one direction needs none.
    language_tokens: bool = False
    # Mix the training corpora in proportion to their numbers of samples to the power of 1 / this, so that small ones,
    # such as those of rare languages, are read more often (Arivazhagan et al. 2019, https://arxiv.org/abs/1907.05019).
    # Default: null reads each line once an epoch, so that no line is preferred.
    sampling_temperature: Annotated[float, Limits(ge=1)] | None = None
    # Limits on the sentence pairs of training and validation text; test sets stay as they are. Default: removes what is
    # hardly a translation, a few lines of most corpora.
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    # Filters that remove sentence pairs of training text when it is preprocessed, at most 32; `mtkit clean RECIPE`
    # writes the text without these pairs. Default: none, so that all lines are read; `mtkit clean` uses all filters
    # that need no model.
    filters: Annotated[list[FilterConfig], Limits(max_length=32)] = field(default_factory=list)
    # Noise that is applied to text in one language, for training to undo. Default: null, since sentence pairs need
    # none.
    noise: NoiseConfig | None = None

    @property
    def valid_sets(self) -> list[HeldOutPairs | MonolingualFile]:
        """All validation sets."""
        return list(self.valid) if isinstance(self.valid, list) else [] if self.valid is None else [self.valid]

    @property
    def texts(self) -> dict[str, CorpusFiles]:
        """All texts, of training, validation and test, by their places in the section."""
        return {**{f"train.{number}": files for number, files in enumerate(self.train)}, **dict(self._held_out())}

    @property
    def all_files(self) -> list[CorpusFiles]:
        """All texts."""
        return list(self.texts.values())

    @property
    def train_pairs(self) -> dict[int, TrainParallelFiles | TrainDocument]:
        """The training corpora of sentence pairs, by their numbers."""
        return {number: each for number, each in enumerate(self.train) if isinstance(each, SentencePairs)}

    @property
    def held_out_pairs(self) -> dict[str, HeldOutPairs]:
        """The validation and test sets of sentence pairs, by their places in the section."""
        return {place: each for place, each in self._held_out() if isinstance(each, SentencePairs)}

    def language_of_target(self, files: CorpusFiles) -> str:
        """Language of the targets of a corpus."""
        return files.tgt_lang or self.tgt_lang

    def languages_of(self, files: CorpusFiles) -> tuple[str, str]:
        """Languages of the sources and of the targets of a corpus."""
        return files.src_lang or self.src_lang, self.language_of_target(files)

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of the training corpora, in order of appearance."""
        return merge_tags((), (files.tag for files in self.train))

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the training corpora, in order of appearance."""
        return tuple(dict.fromkeys(lang for files in self.train for lang in self.languages_of(files)))

    def weights(self, sizes: Sequence[int]) -> tuple[float, ...]:
        """Proportion in which the training corpora are mixed; empty: every sample is read once an epoch.

        Args:
            sizes: samples of each corpus.
        """
        if self.sampling_temperature is not None:
            return tuple(size ** (1 / self.sampling_temperature) for size in sizes)
        return tuple(files.weight for files in self.train if files.weight is not None)

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
        object.__setattr__(self, "train", [self._with_languages(each) for each in self.train])
        object.__setattr__(self, "test", {name: self._with_languages(each) for name, each in self.test.items()})
        sets = [self._with_languages(each) for each in self.valid_sets]
        object.__setattr__(self, "valid", sets if isinstance(self.valid, list) else next(iter(sets), None))
        self._check_noise()
        self._check_tags()
        self._check_languages()
        weighted = [files.weight is not None for files in self.train]
        if any(weighted) and not all(weighted):
            missing = weighted.index(False)
            raise ValueError(
                f"train.{missing}.weight: missing, while another training corpus has one; give all a weight, or none"
            )
        if any(weighted) and self.sampling_temperature is not None:
            raise ValueError("sampling_temperature: mixes the corpora, and so do their weights; omit one of them")
        made: dict[Path, CorpusFiles] = {}
        for place, files in [*((f"train.{number}", each) for number, each in enumerate(self.train)), *self._held_out()]:
            key, folder = "lines_folder", files.lines_folder if isinstance(files, PairDocument) else None
            if isinstance(files, TrainBacktranslated):
                key, folder = "output", files.folder
            if folder is not None and made.setdefault(folder, files) is not files:  # each would overwrite the other's
                raise ValueError(f"{place}.{key}: {folder} is the folder of another corpus too; set another")

    def _with_languages(self, files: T) -> T:
        """Files with both sides state the languages that are read."""
        if not isinstance(files, PairDocument):
            return files
        src_lang, tgt_lang = files.src_lang or self.src_lang, files.tgt_lang or self.tgt_lang
        return replace(files, src_lang=src_lang, tgt_lang=tgt_lang)

    def _check_tags(self) -> None:
        try:
            tags = self.tags
        except ValueError as error:
            raise ValueError(f"train: {error}") from error
        known_tags = ", ".join(sorted(tags))
        for place, files in self._held_out():
            if files.tag is None and self.requires_tag:
                raise ValueError(f"{place}.tag: missing, while every training corpus has one; give one of {known_tags}")
            if files.tag is not None and files.tag not in tags:
                known = f"they have {known_tags}" if tags else "give the training corpora tags too"
                raise ValueError(f"{place}.tag: {files.tag!r} is the tag of no training corpus; {known}")

    def _held_out(self) -> Iterator[tuple[str, HeldOutPairs | MonolingualFile]]:
        """Validation and test sets, each with its place in the section."""
        for number, files in enumerate(self.valid_sets):
            yield f"valid.{number}" if isinstance(self.valid, list) else "valid", files
        yield from ((f"test.{name}", files) for name, files in self.test.items())

    def _check_languages(self) -> None:
        if not self.language_tokens:
            return
        for place, files in self._held_out():
            for key, lang in zip(("src_lang", "tgt_lang"), self.languages_of(files), strict=True):
                if lang not in self.languages:
                    raise ValueError(
                        f"{place}.{key}: {lang!r} is the language of no training corpus; they have "
                        f"{', '.join(self.languages)}"
                    )

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
        pairs = [f"train.{number}" for number, files in enumerate(self.train) if not isinstance(files, MonolingualFile)]
        pairs += ["valid" for files in self.valid_sets if isinstance(files, SentencePairs)]
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
