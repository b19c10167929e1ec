"""Training of sentencepiece models from text files.

Equal text and settings give identical bytes: the number of threads and the seed are constant, and the model file holds
neither time nor path. Lines that sentencepiece's trainer would skip silently are skipped here and counted.
"""

from __future__ import annotations

import io
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sentencepiece

from mtkit.errors import DataError, MtkitError
from mtkit.io.files import write_bytes, write_text
from mtkit.signals import call_interruptibly
from mtkit.text.config import TokenizerConfig
from mtkit.text.lines import Text, count_lines_and_bytes, read_lines
from mtkit.text.normalise import SPACE_MARK, count_unrepresentable, kept_forms
from mtkit.text.subword.listed_vocabulary import word_piece_vocabulary
from mtkit.text.subword.mapped_vocabulary import pad_vocabulary
from mtkit.text.subword.tokenizer import BYTE_LEVEL, ByteLevel, PrivateUse, Tokenizer
from mtkit.text.tokenizer import TokenizerPair, model_names, prepared
from mtkit.text.vocab import RESERVED_TOKENS, SPECIAL_TOKENS, UNKNOWN_SURFACE

MAX_LINE_BYTES = 4192  # sentencepiece's own limit; longer lines are rarely sentences
MAX_SAMPLE_BYTES = 80 << 20  # of training text; the trainer needs about six times the memory of its text
_NUM_THREADS = 4  # constant on every machine: unigram's sums depend on it in the last bit
_SEED = 1
_SENTENCEPIECE_TYPES = {"byte_bpe": "bpe", "wordpiece": "bpe"}  # others have sentencepiece's name
_NUM_BYTES = 256  # tokens that byte fallback adds
_SPECIAL_TOKENS = re.compile(f"<(?={'|'.join(re.escape(token[1:]) for token in (*RESERVED_TOKENS, BYTE_LEVEL))})")


@dataclass
class TokenizerReport:
    """Statistics of a tokenizer's training text.

    Attributes:
        paths: of the files.
        empty: lines without a character.
        too_long: lines over MAX_LINE_BYTES bytes.
        not_sampled: lines skipped because the files have more than `max_lines` lines or MAX_SAMPLE_BYTES bytes.
        replaced_chars: U+2581 and lone surrogates in the sampled lines.
    """

    paths: str
    lines: int = 0
    trained_on: int = 0
    empty: int = 0
    too_long: int = 0
    not_sampled: int = 0
    replaced_chars: int = 0
    vocab_size: int = 0

    def describe(self) -> str:
        """A summary in one sentence."""
        counts = [f"{self.vocab_size:,} tokens from {self.trained_on:,} of {self.lines:,} lines"]
        skipped = {
            "empty": self.empty,
            f"over {MAX_LINE_BYTES:,} bytes": self.too_long,
            "not in the sample": self.not_sampled,
        }
        counts += [f"{count:,} {reason}" for reason, count in skipped.items() if count]
        if self.replaced_chars:
            counts.append(f"{self.replaced_chars:,} unrepresentable characters replaced")
        return "; ".join(counts)


@dataclass(frozen=True, kw_only=True)
class SettingNames:
    """Names of the settings that a message proposes to change, by default the keys of a recipe.

    Attributes:
        min_frequency: occurrences of a word or character of the vocabulary.
        character_coverage: share of the characters in the vocabulary; None: the user cannot set it.
    """

    vocab_size: str = "tokenizer.vocab_size"
    min_frequency: str = "tokenizer.min_frequency"
    character_coverage: str | None = "tokenizer.character_coverage"

    def too_large(self, config: TokenizerConfig, files: str, largest: int) -> DataError:
        """The error of a vocabulary that is larger than a text can give."""
        return DataError(
            f"{self.vocab_size}: {config.vocab_size} is too large for the text of {files}; the maximum for model_type "
            f"{config.model_type} is {largest}"
        )

    def too_small(self, config: TokenizerConfig, files: str, *, smallest: int, reserved: int) -> DataError:
        """The error of a vocabulary without room for its characters.

        Args:
            reserved: number of tokens that are no text.
        """
        is_too_small = f"{self.vocab_size}: {config.vocab_size} is too small"
        if config.model_type == "byte_bpe":
            return DataError(
                f"{is_too_small}: the reserved tokens and the 256 bytes of a byte_bpe model need at least {smallest}; "
                "raise it"
            )
        other = "" if self.character_coverage is None else f", or lower {self.character_coverage}"
        return DataError(
            f"{is_too_small}: the {reserved} reserved tokens and the characters of {files} need at least {smallest}; "
            f"raise it{other}"
        )


RECIPE_KEYS = SettingNames()


def train_pair(
    src_files: Sequence[Text], tgt_files: Sequence[Text], folder: Path, config: TokenizerConfig
) -> list[TokenizerReport]:
    """Train the tokenizers of both sides and write them into an existing folder.

    Returns:
        One report, or two (source first) if each side has its own model.

    Raises:
        DataError, MissingInputError, ReadWriteError: as `train_tokenizer`.
    """
    groups = [[*src_files, *tgt_files]] if config.shared else [list(src_files), list(tgt_files)]
    stems = [folder / Path(name).stem for name in model_names(config.shared)]
    reports = [train_tokenizer(files, stem, config) for files, stem in zip(groups, stems, strict=True)]
    sides = [Tokenizer.load(stem.with_name(stem.name + ".model"), form=config.form) for stem in stems]
    forms = None if config.normaliser == "none" else kept_forms(line for file in src_files for line in read_lines(file))
    TokenizerPair(src=sides[0], tgt=sides[-1], config=config, forms=forms).save(folder)
    return reports


def train_tokenizer(
    files: Sequence[Text], stem: Path, config: TokenizerConfig, *, names: SettingNames = RECIPE_KEYS
) -> TokenizerReport:
    """Train one model on all lines of the files; write `STEM.model` and the readable `STEM.vocab`.

    Args:
        stem: path without the endings.

    Raises:
        DataError: the text is empty or not UTF-8, or `vocab_size` is too large or too small for it.
        MissingInputError, ReadWriteError: as `files.translate_read_errors` and `files.translate_write_errors`.
    """
    report = TokenizerReport(", ".join(map(str, files)))
    if config.min_frequency > 1:
        config = replace(config, vocab_size=_frequent_vocab_size(files, config, names))
    model = _train_model(_training_lines(files, config, report), config, report, names=names)
    tokenizer = Tokenizer(model, form=config.form)
    if tokenizer.vocab.size < config.vocab_size:
        raise names.too_large(config, report.paths, tokenizer.vocab.size)
    if config.vocab_size < (smallest := _min_vocab_size(config)):
        raise names.too_small(config, report.paths, smallest=smallest, reserved=smallest - 1)
    if config.model_type == "wordpiece":
        model = word_piece_vocabulary(tokenizer.ids_to_tokens(range(len(RESERVED_TOKENS), tokenizer.vocab.size)))
    model = pad_vocabulary(model, config.pad_to_multiple_of)
    tokenizer = Tokenizer(model, form=config.form)
    report.vocab_size = tokenizer.vocab.size
    write_bytes(stem.with_name(stem.name + ".model"), model)
    tokens = tokenizer.ids_to_tokens(range(report.vocab_size))
    write_text(stem.with_name(stem.name + ".vocab"), "".join(f"{token}\n" for token in tokens))
    return report


def _training_lines(files: Sequence[Text], config: TokenizerConfig, report: TokenizerReport) -> Iterator[str]:
    sizes = [count_lines_and_bytes(file) for file in files]
    num_lines, num_bytes = (max(1, sum(counts)) for counts in zip(*sizes, strict=True))
    alphabet = ByteLevel() if config.model_type == "byte_bpe" else PrivateUse()
    share = min(1.0, config.max_lines / num_lines, MAX_SAMPLE_BYTES / num_bytes)
    for file in files:
        for line in read_lines(file):
            report.lines += 1
            if math.floor(report.lines * share) == math.floor((report.lines - 1) * share):
                report.not_sampled += 1
                continue
            report.replaced_chars += count_unrepresentable(line)
            line = config.form.normalise(prepared(line, "tgt", config))  # the side that keeps more
            if not line:
                report.empty += 1
            elif len(line) > MAX_LINE_BYTES // 4 and len(line.encode()) > MAX_LINE_BYTES:
                report.too_long += 1
            else:
                report.trained_on += 1
                # split inside every string that looks like a special token: the trainer ignores those strings
                yield from _SPECIAL_TOKENS.sub("<\n", alphabet.escape(line)).split("\n")


def _frequent_vocab_size(files: Sequence[Text], config: TokenizerConfig, names: SettingNames) -> int:
    """The size of a vocabulary of all words or characters that occur `min_frequency` times, at most `vocab_size`.

    Raises:
        DataError: no word or character is that frequent.
    """
    counts: Counter[str] = Counter()
    report = TokenizerReport(", ".join(map(str, files)))
    for line in _training_lines(files, config, report):
        marked = SPACE_MARK + line.replace(" ", SPACE_MARK)
        counts.update(marked.split(SPACE_MARK)[1:] if config.model_type == "word" else marked)
    frequent = sum(count >= config.min_frequency for count in counts.values())
    if counts and not frequent:
        raise DataError(
            f"{names.min_frequency}: no {config.model_type} of {report.paths} occurs {config.min_frequency} times; "
            f"lower it to at most {max(counts.values())}"
        )
    if config.model_type == "char":
        # sentencepiece keeps the most frequent characters up to this share of the text
        covered_before = itertools.accumulate((count for _, count in counts.most_common()), initial=0)
        wanted = config.character_coverage * counts.total()
        frequent = min(frequent, sum(covered < wanted for covered in itertools.islice(covered_before, len(counts))))
    return min(config.vocab_size, _min_vocab_size(config) - 1 + frequent)


def require_vocab_for_text(config: TokenizerConfig) -> None:
    """Check that `vocab_size` exceeds the number of reserved tokens, before there is a text.

    Raises:
        DataError: it does not.
    """
    if config.vocab_size < (smallest := _min_vocab_size(config)):
        raise DataError(
            f"tokenizer.vocab_size: {config.vocab_size} is too small: {smallest - 1} tokens are reserved; raise it"
        )


def _min_vocab_size(config: TokenizerConfig) -> int:
    """The size of a vocabulary of reserved tokens and one more."""
    return len(RESERVED_TOKENS) + 1 + (_NUM_BYTES if config.byte_fallback else 0)


def _train_model(
    lines: Iterator[str], config: TokenizerConfig, report: TokenizerReport, *, names: SettingNames
) -> bytes:
    model = io.BytesIO()
    is_byte_level = config.model_type == "byte_bpe"
    read_errors: list[MtkitError] = []

    def source() -> Iterator[str]:
        """The lines; the error of a failed read is stored, since sentencepiece's trainer would hide it."""
        try:
            yield from lines
        except MtkitError as error:
            read_errors.append(error)
            raise

    def train() -> None:
        sentencepiece.set_random_generator_seed(_SEED)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=source(),
            model_writer=model,
            model_type=_SENTENCEPIECE_TYPES.get(config.model_type, config.model_type),
            # below the minimum, it fails before it counts the characters
            vocab_size=max(config.vocab_size, _min_vocab_size(config)),
            byte_fallback=config.byte_fallback,
            character_coverage=config.character_coverage,
            split_digits=config.split_digits,
            normalization_rule_name="identity",  # lines are normalised before, see normalise.py
            remove_extra_whitespaces=False,
            max_sentence_length=4 * MAX_LINE_BYTES,  # never reached: longer lines are skipped above
            control_symbols=[*SPECIAL_TOKENS, *([BYTE_LEVEL] if is_byte_level else [])],
            required_chars=ByteLevel.characters() if is_byte_level else "",
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            unk_surface=UNKNOWN_SURFACE,
            num_threads=_NUM_THREADS,
            minloglevel=2,
        )

    try:
        call_interruptibly(train)
    except RuntimeError as error:
        if read_errors:
            raise read_errors[0] from None  # an error of the text, not of sentencepiece
        if report.trained_on == 0:
            raise DataError(
                f"{report.paths}: no text to train a tokenizer on ({report.lines} lines, none usable)"
            ) from error
        # sentencepiece has no error codes, only messages
        message = str(error)
        if largest := re.search(r"too high \(\d+\)\. Please set it to a value <= (\d+)", message):
            raise names.too_large(config, report.paths, int(largest[1])) from error
        if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
            reserved = _min_vocab_size(config) - 1
            raise names.too_small(config, report.paths, smallest=int(smallest[1]), reserved=reserved) from error
        raise DataError(f"{report.paths}: sentencepiece could not train a model: {message}") from error
    return model.getvalue()
