"""Words that may follow the beginning of a translation, each with the translation that goes on with it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from mtkit.search.config import MaxLength
from mtkit.translate.glossary import is_word_boundary
from mtkit.translate.lines import ConstrainedLine, Line, text_of
from mtkit.translate.translator import Translator

LONGEST_WORD = 40  # characters; in a longer one, of a script without spaces, what one token adds is the word


class NextWord(NamedTuple):
    """A word and the translation that has it after the given beginning."""

    word: str
    hyp: str


def next_words(translator: Translator, line: Line, count: int) -> list[NextWord]:
    """The most probable words after the beginning of a translation, the best first.

    A beam of `count` hypotheses that may have one token more than the beginning finds the most probable next tokens.
    Each begins a search of its own, which completes the word and the translation; tokens of the same word count once.

    Args:
        translator: its constraints hold for the translations.
        line: the source, with the beginning as its prefix.
        count: number of tokens.

    Raises:
        MtkitError: as `Translator.translate`.
    """
    text, prefix = text_of(line), line.prefix.strip() if isinstance(line, ConstrainedLine) else ""
    num_tokens = len(translator.tokenizers.tgt.encode([prefix])[0]) if prefix else 0
    wide = replace(
        translator.search,
        beam_size=count,
        n_best=count,
        max_length=MaxLength(factor=0.0, offset=num_tokens + 1),
        retry_loops=False,
    )
    options = replace(translator.options, glossary=None, restore=False)
    wide_beam = translator.varied(search=wide, options=options)
    (first,) = wide_beam.translate([ConstrainedLine(text=text, prefix=prefix)])
    begun = [each for each in dict.fromkeys(each.hyp.strip() for each in first.nbest) if len(each) > len(prefix)]
    words: dict[str, str] = {}
    lines = [ConstrainedLine(text=text, prefix=each) for each in begun]
    for beginning, translation in zip(begun, translator.translate(lines), strict=True):
        hyp = translation.hyp.strip()
        if hyp.startswith(prefix) and is_word_boundary(hyp, len(prefix)) and (rest := hyp[len(prefix) :].split()):
            word = rest[0] if len(rest[0]) <= LONGEST_WORD else beginning[len(prefix) :].strip()
            words.setdefault(word, hyp)
    return [NextWord(word, hyp) for word, hyp in words.items()]
