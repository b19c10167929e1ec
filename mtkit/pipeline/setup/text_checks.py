"""Mistakes in the text files of a recipe that their first lines show: swapped sides, other languages, copies, held-out
text that is training text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from mtkit.corpus.config import CorpusConfig, ParallelFiles, TrainParallelFiles
from mtkit.corpus.line_shift import forbid_shifted_lines
from mtkit.errors import DataError
from mtkit.text.language import CLASSIFIED_LINES, are_similar, language_code, language_of_text
from mtkit.text.lines import read_lines

MIN_LINES = 100  # of a file whose language is guessed; of toy corpora and short lists a guess is often wrong


def likely_mistakes(corpus: CorpusConfig) -> list[str]:
    """Return a sentence about each likely mistake. Files with a tag are not classified: it may name their language.

    Args:
        corpus: the files and the languages.

    Raises:
        DataError: source and target of a pair of files are swapped, or the lines of one are shifted.
        MissingInputError, ReadWriteError: a file cannot be read.
    """
    sentences: list[str] = []
    known: list[tuple[ParallelFiles | TrainParallelFiles, list[list[str]]]] = []  # training files and their text
    for place, files, tgt_lang in _pairs(corpus):
        texts = [_first_lines(path) for path in (files.src, files.tgt)]
        if files.src == files.tgt or texts[0] == texts[1]:
            sentences.append(f"{place}: {files.src} and {files.tgt} are the same text; a model learns to copy it")
        else:
            forbid_shifted_lines(files.src, files.tgt)
        if texts[0] != texts[1] and files.tag is None and files.prefix is None and min(map(len, texts)) >= MIN_LINES:
            guesses = [language_of_text(lines) for lines in texts]
            sentences += _language_mistakes(place, files, guesses, [corpus.src_lang, tgt_lang])
        if isinstance(files, TrainParallelFiles):
            known.append((files, texts))
        elif train := next((each for each, lines in known if _begins_with(lines, texts)), None):
            sentences.append(
                f"{place}: {files.src} and {files.tgt} are training text ({train.src}); their score says nothing about "
                "other text"
            )
    return sentences


def _pairs(corpus: CorpusConfig) -> Iterator[tuple[str, ParallelFiles | TrainParallelFiles, str]]:
    """Yield the key of each pair of files, the pair, and its target language."""
    for number, train in enumerate(corpus.train):
        if isinstance(train, TrainParallelFiles):
            yield f"corpus.train.{number}", train, corpus.tgt_lang
    place = "corpus.valid.{}" if isinstance(corpus.valid, list) else "corpus.valid"
    named = [(place.format(number), each) for number, each in enumerate(corpus.valid_sets)]
    for place, files in [*named, *((f"corpus.test.{name}", each) for name, each in corpus.test.items())]:
        if isinstance(files, ParallelFiles):
            yield place, files, corpus.language_of_target(files)


def _begins_with(known: list[list[str]], texts: list[list[str]]) -> bool:
    """Return whether the first lines of both sides are those of a training text, or all that a shorter file has."""
    return bool(texts[0]) and all(lines[: len(text)] == text for lines, text in zip(known, texts, strict=True))


def _first_lines(path: Path) -> list[str]:
    return list(itertools.islice(read_lines(path), CLASSIFIED_LINES))


def _language_mistakes(
    place: str, files: ParallelFiles | TrainParallelFiles, guesses: list[str | None], stated: list[str]
) -> list[str]:
    """Return a sentence about each side that looks like another language than the recipe states.

    Raises:
        DataError: each side looks like the language of the other one.
    """
    codes = [language_code(each) for each in stated]
    src, tgt = guesses
    if src is not None and tgt is not None and [src, tgt] == codes[::-1] and src != tgt:
        raise DataError(
            f"{place}: {files.src} looks like {src} and {files.tgt} like {tgt}, but corpus.src_lang is {stated[0]} and "
            f"the target language {stated[1]}; exchange src and tgt there, or the languages"
        )
    has_own = isinstance(files, ParallelFiles) and files.tgt_lang is not None
    keys = ("corpus.src_lang", f"{place}.tgt_lang" if has_own else "corpus.tgt_lang")
    return [
        f"{place}: the text of {path} looks like {guess}, not {language}; set {key}, or check the file"
        for path, key, guess, code, language in zip((files.src, files.tgt), keys, guesses, codes, stated, strict=True)
        if guess is not None and code is not None and not are_similar(guess, code)
    ]
