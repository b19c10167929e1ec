"""Languages of the two files of a new corpus, and mistakes that names and first lines of files show.

These are swapped sides, other languages, copies, and held-out text that is training text.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from mtkit.corpus.config import CorpusConfig, SentencePairs
from mtkit.corpus.line_shift import forbid_shifted_lines
from mtkit.corpus.split import Part
from mtkit.errors import DataError, UsageError
from mtkit.io.files import hash_file
from mtkit.text.language import CLASSIFIED_LINES, CODE, are_similar, language_code, language_of_text, split_name
from mtkit.text.lines import read_lines

STATE_THEM = "if the text is right, state them with mtkit new --src-lang CODE --tgt-lang CODE"


@dataclass(frozen=True)
class GuessedLanguage:
    """Language of a file.

    Attributes:
        code: such as de.
        reason: where it is from: the option, the name of the file, the text.
        text: language of the text; None if it is unclear.
    """

    code: str
    reason: str
    text: str | None


def guess_languages(
    src: Path, tgt: Path, src_lang: str | None, tgt_lang: str | None
) -> tuple[GuessedLanguage, GuessedLanguage]:
    """Guess the languages of a pair of files, and check that they are two texts in the right order.

    Args:
        src_lang: stated by the user; None: guess.

    Raises:
        UsageError: a stated code is not a language code, both are one code, or a language can be neither read from the
            name nor guessed from the text.
        DataError: a file is empty, or the files have the same content, seem to be swapped, or are in the same language
            although it is not stated so.
    """
    for option, code in (("--src-lang", src_lang), ("--tgt-lang", tgt_lang)):
        if code is not None and not CODE.fullmatch(code):  # it names files and stands unquoted in the recipe
            raise UsageError(f"{option} {code!r}: not a language code, such as de or zh-CN")
    if src_lang is not None and tgt_lang is not None and src_lang.lower() == tgt_lang.lower():
        raise UsageError(
            f"--src-lang {src_lang} --tgt-lang {tgt_lang}: the files of the two sides are named by their codes; give "
            f"different ones, such as {src_lang} and {src_lang}-simple"
        )
    for path in (src, tgt):
        if next(read_lines(path), None) is None:
            raise DataError(f"{path}: empty; give a text and its translation")
    if _are_equal(src, tgt):
        raise DataError(f"{src} and {tgt}: the same text twice; give a text and its translation")
    first, second = _guess(src, src_lang, "--src-lang"), _guess(tgt, tgt_lang, "--tgt-lang")
    are_stated = src_lang is not None and tgt_lang is not None
    codes = [language_code(each.code) or each.code for each in (first, second)]
    is_swapped = codes[0] == second.text != codes[1] and codes[1] == first.text
    if is_swapped and are_stated:
        raise DataError(
            f"{src} looks like {first.text} and {tgt} like {second.text}, the other way round than --src-lang and "
            "--tgt-lang; exchange the files, or the languages"
        )
    if is_swapped:
        raise DataError(
            f"{src} is {first.text} and {tgt} is {second.text} by their text, the other way round than by their names; "
            f"swapped? Rename them; {STATE_THEM}"
        )
    if are_stated:
        return first, second
    if codes[0] == codes[1] or (first.text is not None and first.text == second.text):
        code = codes[0] if codes[0] == codes[1] else first.text
        raise DataError(f"{src} and {tgt}: both seem to be in {code}; a translation has two languages; {STATE_THEM}")
    return first, second


def check_held_out(held_out: Mapping[Part, tuple[Path, Path]], codes: tuple[str, str]) -> None:
    """Check that files of valid and test are different texts in the right order.

    Args:
        held_out: source and target of each part.

    Raises:
        DataError: the two sides of a part are one text or seem to be swapped, or valid and test are one text.
    """
    for part, (src, tgt) in held_out.items():
        if _are_equal(src, tgt):
            raise DataError(f"--{part} {src} {tgt}: the same text twice; give a text and its translation")
        texts = [language_of_text(read_lines(path)) for path in (src, tgt)]
        if texts == [language_code(code) or code for code in reversed(codes)] and texts[0] != texts[1]:
            raise DataError(
                f"--{part} {src} {tgt}: looks like {texts[0]} and {texts[1]}, but the corpus is {codes[0]} and "
                f"{codes[1]}; exchange the two files"
            )
    for (one, first), (other, second) in combinations(held_out.items(), 2):
        if _are_equal(first[0], second[0]):
            raise DataError(
                f"--{one} {first[0]} and --{other} {second[0]}: the same text; the training selects by valid, so that "
                "its score says little; give two sets"
            )


def _are_equal(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or hash_file(one) == hash_file(other)


def _guess(path: Path, stated: str | None, option: str) -> GuessedLanguage:
    text = language_of_text(read_lines(path))
    _, name = split_name(path)
    if stated is not None:
        return GuessedLanguage(stated, option, text)
    if name is not None:
        agrees = text is not None and are_similar(name, text)
        return GuessedLanguage(name, "file name and text" if agrees else "file name", text)
    if text is None:
        raise UsageError(f"{path}: language unknown; state it with mtkit new {option} CODE, such as de")
    return GuessedLanguage(text, "text", text)


def language_notes(path: Path, guess: GuessedLanguage, option: str) -> list[str]:
    """Return a sentence about the language of a file, and a warning if name and text disagree.

    Args:
        option: of `mtkit new` that states the language.
    """
    lines = [f"{path.name}: {guess.code} ({guess.reason})"]
    if guess.text is not None and not are_similar(guess.code, guess.text):
        remedy = f"or {option}" if guess.reason == option else f"or state its language with mtkit new {option} CODE"
        lines.append(
            f"warning: the text of {path.name} looks like {guess.text}, not {guess.code}; check the file, {remedy}"
        )
    return lines


MIN_LINES = 100  # of a file whose language is guessed; of toy corpora and short lists a guess is often wrong


def language_mistake(path: Path, language: str) -> str | None:
    """A sentence about a text that looks like another language; None if it does not.

    Raises:
        DataError, MissingInputError, ReadWriteError: as `read_lines`.
    """
    lines = list(itertools.islice(read_lines(path), CLASSIFIED_LINES))
    guess = language_of_text(lines) if len(lines) >= MIN_LINES else None
    if guess is None or language_code(language) is None or are_similar(guess, language):
        return None
    return f"the text of {path} looks like {guess}, not {language}"


def likely_mistakes(corpus: CorpusConfig) -> list[str]:
    """Return a sentence about each likely mistake. Files with a tag are not classified: it may name their language.

    Raises:
        DataError: source and target of a pair of files are swapped, or the lines of one are shifted.
        MissingInputError, ReadWriteError: a file cannot be read.
    """
    sentences: list[str] = []
    known: list[tuple[SentencePairs, list[list[str]]]] = []  # training files and their text
    train = {f"train.{number}": each for number, each in corpus.train_pairs.items()}
    for key, files in {**train, **corpus.held_out_pairs}.items():
        place = f"corpus.{key}"
        texts = [list(itertools.islice(read_lines(path), CLASSIFIED_LINES)) for path in (files.src, files.tgt)]
        if files.src == files.tgt or texts[0] == texts[1]:
            sentences.append(f"{place}: {files.src} and {files.tgt} are the same text; a model learns to copy it")
        else:
            forbid_shifted_lines(files.src, files.tgt)
        if texts[0] != texts[1] and files.tag is None and files.prefix is None and min(map(len, texts)) >= MIN_LINES:
            guesses = [language_of_text(lines) for lines in texts]
            sentences += _language_mistakes(place, files, guesses, corpus.languages_of(files))
        if key in train:
            known.append((files, texts))
        elif same := next((each for each, lines in known if _begins_with(lines, texts)), None):
            sentences.append(
                f"{place}: {files.src} and {files.tgt} are training text ({same.src}); their score says nothing about "
                "other text"
            )
    return sentences


def _begins_with(known: list[list[str]], texts: list[list[str]]) -> bool:
    """Return whether the first lines of both sides are those of a training text, or all that a shorter file has."""
    return bool(texts[0]) and all(lines[: len(text)] == text for lines, text in zip(known, texts, strict=True))


def _language_mistakes(
    place: str, files: SentencePairs, guesses: list[str | None], stated: tuple[str, str]
) -> list[str]:
    """Return a sentence about each side that looks like another language than the recipe states.

    Raises:
        DataError: each side looks like the language of the other one.
    """
    codes = [language_code(each) for each in stated]
    src, tgt = guesses
    if src is not None and tgt is not None and [src, tgt] == codes[::-1] and src != tgt:
        raise DataError(
            f"{place}: {files.src} looks like {src} and {files.tgt} like {tgt}, but its languages are {stated[0]} and "
            f"{stated[1]} (src_lang and tgt_lang, there or of corpus); exchange src and tgt there, or the languages"
        )
    own = {"src_lang": files.src_lang, "tgt_lang": files.tgt_lang}
    keys = [f"corpus.{key}" if lang is None else f"{place}.{key}" for key, lang in own.items()]
    return [
        f"{place}: the text of {path} looks like {guess}, not {language}; set {key}, or check the file"
        for path, key, guess, code, language in zip((files.src, files.tgt), keys, guesses, codes, stated, strict=True)
        if guess is not None and code is not None and not are_similar(guess, code)
    ]
