"""Learning subword models from text.

Equal text and settings give equal bytes: one constant number of threads, a fixed seed, no time and no path in the file.
What sentencepiece's trainer would skip by itself is skipped here, and counted.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sentencepiece

from mtkit.errors import DataError, MtkitError
from mtkit.io.files import write_bytes, write_text
from mtkit.text.lines import count_lines, read_lines
from mtkit.text.normalise import count_replaced, normalise
from mtkit.text.special_tokens import RESERVED
from mtkit.text.tokenizer import (
    UNKNOWN_SURFACE,
    Tokenizer,
    TokenizerConfig,
    TokenizerPair,
    model_names,
    to_pieces_text,
)

MAX_LINE_BYTES = 4192  # sentencepiece's own limit; longer lines are rarely sentences
_NUM_THREADS = 4  # not that of the machine: the sums of unigram depend on it in the last bit
_SEED = 1
_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
_LEAST = len(_SPECIAL) + len(RESERVED) + 1  # pieces of any vocabulary
_BYTES = 256  # pieces more with byte fallback
_CONTROL = re.compile("|".join(map(re.escape, (*_SPECIAL, *RESERVED))))


@dataclass
class TokenizerReport:
    """What a tokenizer was learned from.

    Attributes:
        lines: in the files.
        learned_from: lines that the trainer was given.
        empty: lines without a character.
        too_long: lines over MAX_LINE_BYTES bytes.
        not_sampled: lines left out because there are more than `max_lines`.
        replaced_characters: U+2581 and lone surrogates, in all lines looked at.
        vocab_size: of the model.
    """

    lines: int = 0
    learned_from: int = 0
    empty: int = 0
    too_long: int = 0
    not_sampled: int = 0
    replaced_characters: int = 0
    vocab_size: int = 0
    files: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """One sentence for a person."""
        parts = [f"{self.vocab_size:,} pieces from {self.learned_from:,} of {self.lines:,} lines"]
        reasons = {
            "empty": self.empty,
            f"over {MAX_LINE_BYTES:,} bytes": self.too_long,
            "beyond max_lines": self.not_sampled,
        }
        parts += [f"{count:,} {reason}" for reason, count in reasons.items() if count]
        if self.replaced_characters:
            parts.append(f"{self.replaced_characters:,} characters that cannot be kept were replaced")
        return "; ".join(parts)


def train_pair(
    src_files: Sequence[Path], tgt_files: Sequence[Path], folder: Path, config: TokenizerConfig
) -> list[TokenizerReport]:
    """Learn the tokenizers of both sides and write them into a folder that is there.

    Returns:
        One report, or two (source first) if the sides have their own models.

    Raises:
        DataError, MissingInputError, ReadWriteError: as `train_tokenizer`.
    """
    groups = [[*src_files, *tgt_files]] if config.shared else [list(src_files), list(tgt_files)]
    prefixes = [folder / Path(name).stem for name in model_names(config.shared)]
    reports = [train_tokenizer(files, prefix, config) for files, prefix in zip(groups, prefixes, strict=True)]
    sides = [
        Tokenizer.load(prefix.with_name(prefix.name + ".model"), normalisation=config.normalisation)
        for prefix in prefixes
    ]
    TokenizerPair(src=sides[0], tgt=sides[-1], config=config).save(folder)
    return reports


def train_tokenizer(files: Sequence[Path], prefix: Path, config: TokenizerConfig) -> TokenizerReport:
    """Learn one model from all lines of the files; write `PREFIX.model` and, for people, `PREFIX.vocab`.

    Raises:
        DataError: the text is empty or not UTF-8, or cannot give as many pieces as asked for, or needs more.
        MissingInputError, ReadWriteError: as `files.reading` and `files.writing`.
    """
    report = TokenizerReport(files=[str(file) for file in files])
    model = _learn(_training_lines(files, config, report), config, report)
    tokenizer = Tokenizer(model, normalisation=config.normalisation)
    report.vocab_size = tokenizer.vocab.size
    if report.vocab_size < config.vocab_size:
        raise DataError(_too_large(config, report, report.vocab_size))
    if config.vocab_size < _LEAST:
        raise DataError(_too_small(config, report, _LEAST))
    write_bytes(prefix.with_name(prefix.name + ".model"), model)
    names = tokenizer.pieces(range(report.vocab_size))
    write_text(prefix.with_name(prefix.name + ".vocab"), "".join(f"{name}\n" for name in names))
    return report


def _training_lines(files: Sequence[Path], config: TokenizerConfig, report: TokenizerReport) -> Iterator[str]:
    total = sum(count_lines(file) for file in files)
    share = min(1.0, config.max_lines / max(total, 1))
    for file in files:
        for line in read_lines(file):
            report.lines += 1
            if math.floor(report.lines * share) == math.floor((report.lines - 1) * share):
                report.not_sampled += 1
                continue
            report.replaced_characters += count_replaced(line)
            line = to_pieces_text(normalise(line, config.normalisation))
            if not line:
                report.empty += 1
            elif len(line) > MAX_LINE_BYTES // 4 and len(line.encode()) > MAX_LINE_BYTES:
                report.too_long += 1
            else:
                report.learned_from += 1
                yield from _without_controls(line)


def _without_controls(line: str) -> Iterator[str]:
    """The line, cut inside of what looks like a control piece: the trainer ignores those, and so their characters."""
    begin = 0
    if "<" in line:
        for match in _CONTROL.finditer(line):
            yield line[begin : match.start() + 1]
            begin = match.start() + 1
    yield line[begin:]


class _Remembering:
    """An iterator over lines that remembers what went wrong in reading them."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.lines = lines
        self.error: MtkitError | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return next(self.lines)
        except MtkitError as error:
            self.error = error
            raise


def _learn(lines: Iterator[str], config: TokenizerConfig, report: TokenizerReport) -> bytes:
    model = io.BytesIO()
    source = _Remembering(lines)
    sentencepiece.set_random_generator_seed(_SEED)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=source,
            model_writer=model,
            model_type=config.model_type,
            vocab_size=max(config.vocab_size, _LEAST),  # with less it does not come so far as to count characters
            byte_fallback=config.byte_fallback,
            character_coverage=config.character_coverage,
            split_digits=config.split_digits,
            normalization_rule_name="identity",  # ours comes before, see normalise.py
            remove_extra_whitespaces=False,
            max_sentence_length=4 * MAX_LINE_BYTES,  # never reached: we have counted
            control_symbols=list(RESERVED),
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            unk_surface=UNKNOWN_SURFACE,
            num_threads=_NUM_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        if source.error is not None:
            raise source.error from None  # a fault of the text, which comes back wrapped in sentencepiece's words
        raise _translate(str(error), config, report) from error
    return model.getvalue()


def _translate(message: str, config: TokenizerConfig, report: TokenizerReport) -> DataError:
    """Say in our words why sentencepiece gave up; it has no error codes, only sentences."""
    files = ", ".join(report.files)
    if report.learned_from == 0:
        return DataError(f"{files}: there is no text to learn a tokenizer from ({report.lines} lines, none usable)")
    if largest := re.search(r"too high \(\d+\)\. Please set it to a value <= (\d+)", message):
        return DataError(_too_large(config, report, int(largest[1])))
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return DataError(_too_small(config, report, int(smallest[1])))
    return DataError(f"{files}: sentencepiece could not learn a model: {message}")


def _too_large(config: TokenizerConfig, report: TokenizerReport, largest: int) -> str:
    return (
        f"tokenizer.vocab_size: {config.vocab_size} is more than the text of {', '.join(report.files)} can give; the "
        f"largest possible size for {config.model_type} here is {largest}"
    )


def _too_small(config: TokenizerConfig, report: TokenizerReport, smallest: int) -> str:
    reserved = _LEAST - 1 + (_BYTES if config.byte_fallback else 0)
    return (
        f"tokenizer.vocab_size: {config.vocab_size} is too small: the {reserved} reserved pieces and the characters of "
        f"{', '.join(report.files)} alone need {smallest}; raise it, or lower tokenizer.character_coverage"
    )
