r"""Sentences of a text, by rules: abbreviations, initials, numbers, quotes, and scripts without spaces.

A sentence ends at a line break, and after a mark such as `.` or `。` with the quotes and brackets that close there.
Marks of scripts without spaces and of Indic scripts end a sentence anywhere; others if white space follows, unless the
next word begins with a small letter and the text has capital letters. A full stop must also not belong to an
abbreviation, an initial or a number. Tokenized text has marks that are words of their own.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterator

_CLOSING = r"\"'“‘”’»«›‹)\]}」』）】》〉｣＂"
_OPENING = r"\"'“”„‚‘«‹»(\[{「『（【《〈｢¿¡–—\-"
_SPACELESS = "。！？｡．।॥۔؟።፧။៕"  # full stops, question and exclamation marks that need no space after them
_KANA_AND_HAN = "\u3040-\u30ff\u4e00-\u9fff"
_END = re.compile(
    rf"(?<![.!?…])[.!?…]+[{_CLOSING}]*(?:[ \xa0\u202f]»)*(?=\s)"  # with white space after it
    rf"|(?<=[{_KANA_AND_HAN}])[!?]+[{_CLOSING}]*|[{_SPACELESS}]+[{_SPACELESS}!?…]*[{_CLOSING}]*"  # without
    r"|(?<!\s)\s*?\n\s*"
)
_MARK = re.compile(rf"[.!?…\n{_SPACELESS}]")  # what _END begins with
_NEXT = re.compile(rf"\s*[{_OPENING}\s]*(\S{{1,20}})?")
_WORD = re.compile(r"[^\s(\[{\"'“”„‘«‹»]*\Z")  # the characters of a word up to its full stop
_LONGEST_WORD = 40  # characters before a full stop that are looked at
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,3}")  # e.g, U.S, Ph.D, z.B
_QUOTING = re.compile("[」』）】》〉｣]と|[」』）】》〉｣][って、，,]|[」』）】》〉｣](?:の|は|が|を|に|で|も|など)")
_JAPANESE_QUOTES = {"「": "」", "『": "』", "（": "）", "【": "】"}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Abbreviations after which no sentence ends, since a name or the rest of the sentence follows.
_ABBREVIATIONS = _words("""
    mr mrs ms messrs dr prof st ste rev hon gen col capt cmdr lt sgt maj gov sen sens rep reps pres supt insp det fr hr
    frau mme mlle mm mgr sra srta dott sig ing dipl arch univ approx ca cca cf v vs viz resp esp incl excl bzw evtl ggf
    vgl inkl exkl zzgl sog geb gest mio mrd str allg bspw mt ft ave blvd rd dept s.o s.u v.a o.ä z.t i.d.r i.a e.g i.e
    z.b d.h u.a д-р проф см ул им напр np tzn m.in tzv např stol obr kpt
""")
# Abbreviations of this kind if a number follows.
_BEFORE_NUMBERS = _words("""
    no nr nos num art abs bd vol vols fig figs abb tab eq eqs sec sect chap ch kap p pp s tel fax ext para ziff jan feb
    mar mär apr jun jul aug sep sept okt oct nov dez dec ок рис стр гл č
""")
# Abbreviations that may end a sentence: one of the commonest first words shows that another one begins.
_FINAL = _words("""
    etc usw inc co corp ltd bros jr sr p.m a.m ed eds al u.s u.k u.n d.c ph.d b.c a.d max min hrsg ff т.д т.п г тыс млн
    млрд itp tj
""")
_STARTERS = _words("""
    the a an this that these those it he she they we you i in on at but and or if when while as for there here his her
    its their our my what who how why where after before since although however so then to with from by not no yes
    der die das ein eine es er sie wir ihr ich und aber oder wenn als im am auf für dies diese dieser doch da so
    le la les un une il elle ils elles nous vous je ce cette ces mais et ou si en dans el los las una él ella pero y
""")
_MONTHS_AND_UNITS = re.compile(
    "jan|feb|mär|apr|mai|jun|jul|aug|sep|okt|nov|dez|jahrhundert|kapitel|auflage|klasse|platz|runde|stock|geburtstag"
    "|mal|weltkrieg|tag|woche|monat|quartal|liga|etage|bundesliga|armee|division",
    re.IGNORECASE,
)
_ORDINALS_BEFORE = re.compile(
    r"\b(?:am|vom|zum|beim|der|die|das|dem|den|des|im|seit|bis|und|ab)\s+\d{1,3}\Z", re.IGNORECASE
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, each with the white space before it; their concatenation is the text.

    Time is linear in the length of the text.
    """
    ends = [0, *sentence_ends(text), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(ends) if start < end]


def sentence_ends(text: str) -> Iterator[int]:
    """Offsets where a sentence ends and another one follows, increasing."""
    first = _MARK.search(text)
    if first is None or first.end() == len(text):  # most lines are one sentence, and this is five times as fast
        return
    # (start, end) of Japanese and Chinese quotations, in order; one without an end is none
    quotes: deque[tuple[int, int]] = deque()
    opened: list[tuple[str, int]] = []
    for bracket in re.finditer("[「」『』（）【】]", text):
        if bracket[0] in _JAPANESE_QUOTES:
            opened.append((bracket[0], bracket.start()))
        elif opened and _JAPANESE_QUOTES[opened[-1][0]] == bracket[0]:
            start = opened.pop()[1]
            if not opened:
                quotes.append((start, bracket.end()))
    begin, quote_end = len(text) - len(text.lstrip()), 0
    has_capitals = text != text.lower()
    for match in _END.finditer(text):
        while quotes and quotes[0][0] < match.start():
            quote_end = max(quote_end, quotes.popleft()[1])
        if match[0].isspace():
            if begin < match.start() and match.end() < len(text):
                yield match.start()
            continue
        following = _NEXT.match(text, match.end())
        if following is None or following[1] is None or match.end() < quote_end:
            continue
        if _ends_sentence(text, match, following[1], has_capitals=has_capitals):
            yield match.end()


def _ends_sentence(text: str, match: re.Match[str], following: str, *, has_capitals: bool) -> bool:
    """Return whether a sentence ends with the mark of a match, before the word that follows, which is cut off."""
    mark = match[0]
    if mark[0] in _SPACELESS or not text[match.end()].isspace():
        return not _QUOTING.match(text, match.end() - 1)
    if following[0] in ".!?":
        return False
    before = text[max(0, match.start() - 2) : match.start()]
    if before[1:].isspace():  # a token of its own, perhaps the end of . . .
        return before[0] not in ".!?" or following[0].isupper()
    if following[0].islower() and has_capitals:
        return False
    if not mark.startswith(".") or mark.startswith(".."):
        return True
    word_match = _WORD.search(text, max(0, match.start() - _LONGEST_WORD), match.start())
    word = "" if word_match is None else word_match[0]
    if not word or len(mark) > 1:  # a quote or bracket closes after the full stop
        return True
    if word.isdecimal():
        before = text[max(0, match.start() - _LONGEST_WORD) : match.start()]
        is_first = not before[: -len(word)].rpartition("\n")[2].strip()
        is_ordinal = bool(_MONTHS_AND_UNITS.match(following)) or (
            bool(_ORDINALS_BEFORE.search(before)) and following[0].isalpha()
        )
        return not (is_first or (len(word) <= 3 and is_ordinal))
    lower = word.lower()
    if lower in _ABBREVIATIONS or (lower in _BEFORE_NUMBERS and following[0].isdecimal()):
        return False
    if lower in _FINAL or _DOTTED.fullmatch(word):
        return re.sub(r"\W+\Z", "", following).lower() in _STARTERS
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    return not is_initial
