"""Languages of the two files of a new corpus, from their names and their text, and mistakes that these show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from mtkit.corpus.split import Part
from mtkit.errors import DataError, UsageError
from mtkit.io.files import hash_file
from mtkit.text.language import are_similar, language_code, language_of_name, language_of_text
from mtkit.text.lines import read_lines

_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")  # it names files and stands unquoted in the recipe
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
        src: text file.
        tgt: its translation.
        src_lang: stated by the user; None: guess.
        tgt_lang: as src_lang.

    Raises:
        UsageError: a stated code is not a language code, both are one code, or a language can be neither read from the
            name nor guessed from the text.
        DataError: a file is empty, or the files have the same content, seem to be swapped, or are in the same language
            although it is not stated so.
    """
    for option, code in (("--src-lang", src_lang), ("--tgt-lang", tgt_lang)):
        if code is not None and not _CODE.fullmatch(code):
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
        codes: the languages of the corpus.

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
    name = language_of_name(path)
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
        path: of the file.
        guess: its language.
        option: of `mtkit new` that states the language.
    """
    lines = [f"{path.name}: {guess.code} ({guess.reason})"]
    if guess.text is not None and not are_similar(guess.code, guess.text):
        remedy = f"or {option}" if guess.reason == option else f"or state its language with mtkit new {option} CODE"
        lines.append(
            f"warning: the text of {path.name} looks like {guess.text}, not {guess.code}; check the file, {remedy}"
        )
    return lines
