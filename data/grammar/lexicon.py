"""The words: nouns, adjectives and verbs as the plain-text tables in data/lexicon give them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "lexicon"
EN_VOWELS = "aeiou"


@dataclass(frozen=True)
class Noun:
    """One noun in both languages; `plural` and `german_plural` are "" for a mass noun."""

    english: str
    plural: str
    german: str
    german_plural: str
    genitive: str
    gender: str                             # m, f or n
    kind: str                               # its heading's first tag
    tags: frozenset[str]
    prepositions: tuple[tuple[str, str], ...]  # (English, German): where it is, or "to" for where one goes

    @property
    def is_weak(self) -> bool:
        """Whether it takes -n in every case but the nominative (der Junge, den Jungen)."""
        return self.gender == "m" and self.genitive.endswith("n")

    def decline(self, case: str, *, plural: bool) -> str:
        """The German form in `case` (nom, acc, dat, gen)."""
        if plural:
            return self.german_plural + ("n" if case == "dat" and self.german_plural[-1] not in "ns" else "")
        if case == "gen" or (self.is_weak and case != "nom"):
            return self.german + self.genitive
        return self.german


@dataclass(frozen=True)
class Adjective:
    """One adjective; the comparatives are "" where none is formed."""

    english: str
    comparative: str
    german: str
    german_comparative: str
    stem: str                               # before an ending: teur- of teuer
    tags: frozenset[str]


@dataclass(frozen=True)
class Complement:
    """What a verb asks for: a noun phrase in a case, perhaps behind a preposition, or a place."""

    kind: str                               # "object", or place, goal, spot, onto, ...
    case: str = ""
    english: str = ""                       # preposition
    german: str = ""
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class VerbEntry:
    """One line of the verb table, not yet inflected."""

    english: tuple[str, ...]                # base, past, -ing: the irregular ones
    infinitive: str
    third_person: str
    auxiliary: str
    participle: str
    prefix: str
    is_reflexive: bool
    subjects: frozenset[str]
    complements: tuple[Complement, ...]
    remarks: dict[str, str]


def rows(name: str) -> Iterator[list[str]]:
    """The columns of each line of a table, comments and blank lines left out."""
    for line in (FOLDER / name).read_text(encoding="utf-8").split("\n"):
        if line.strip() and not line.startswith("#"):
            yield [column.strip() for column in re.split(r"\s\|(?:\s|$)", line)]


def english_plural(word: str) -> str:
    """The regular plural, which is also the regular third person of a verb."""
    if word.endswith(("s", "x", "z", "ch", "sh", "o")) and word not in ("piano", "photo", "radio"):
        return word + "es"
    if word.endswith("y") and word[-2] not in EN_VOWELS:
        return word[:-1] + "ies"
    return word + "s"


@cache
def nouns() -> tuple[Noun, ...]:
    """All nouns, in the order of the table."""
    found: list[Noun] = []
    heading: list[str] = []
    for row in rows("nouns.txt"):
        if row[0].startswith("["):
            heading = row[0].strip("[]").split()
            continue
        singular, *plural = [word.replace("_", " ") for word in row[0].split()]
        article, german, genitive, german_plural = row[1].split()
        extra = row[2].split() if len(row) > 2 else []
        is_mass = german_plural == "-"
        pairs = [pair.split("=") for pair in extra if "=" in pair]
        found.append(Noun(
            english=singular,
            plural="" if is_mass else (plural[0] if plural else english_plural(singular)),
            german=german,
            german_plural="" if is_mass else german_plural,
            genitive=genitive.strip("-"),
            gender={"der": "m", "die": "f", "das": "n"}[article],
            kind=heading[0],
            tags=frozenset([*heading, *[word for word in extra if "=" not in word], singular]),
            prepositions=tuple((english, german) for english, german in pairs),
        ))
    return tuple(found)


@cache
def adjectives() -> tuple[Adjective, ...]:
    """All adjectives, in the order of the table."""
    found: list[Adjective] = []
    for english_column, german_column, tags in rows("adjectives.txt"):
        english, *irregular = english_column.split()
        german, german_comparative, *stem = german_column.split()
        is_compared = german_comparative != "not"
        comparative = irregular[0] if irregular else english_comparative(english)
        found.append(Adjective(
            english=english,
            comparative=comparative if is_compared else "",
            german=german,
            german_comparative=german_comparative if is_compared else "",
            stem=stem[0] if stem else german,
            tags=frozenset(tags.split()),
        ))
    return tuple(found)


def english_comparative(word: str) -> str:
    """The regular comparative: -er for one syllable and for -y, otherwise with "more"."""
    if word.endswith("y"):
        return word[:-1] + "ier"
    syllables = sum(1 for i, letter in enumerate(word) if letter in EN_VOWELS and word[i - 1:i] not in tuple(EN_VOWELS))
    silent_e = word.endswith("e")
    if syllables - silent_e <= 1:
        return word + ("r" if silent_e else "er")
    return "more " + word


@cache
def verbs() -> tuple[VerbEntry, ...]:
    """All verbs, in the order of the table."""
    found: list[VerbEntry] = []
    for english, german, subjects, complements, *remarks in rows("verbs.txt"):
        infinitive, third_person, auxiliary, participle = german.split()
        is_reflexive = infinitive.startswith("sich_")
        prefix, _, infinitive = infinitive.removeprefix("sich_").rpartition("|")
        pairs = [remark.partition("=") for remark in " ".join(remarks).split()]
        found.append(VerbEntry(
            english=tuple(word.replace("_", " ") for word in english.split()),
            infinitive=infinitive,
            third_person=third_person,
            auxiliary=auxiliary,
            participle=participle,
            prefix=prefix,
            is_reflexive=is_reflexive,
            subjects=frozenset(subjects.split(",")),
            complements=tuple(complement(text) for text in complements.split()),
            remarks={name: value for name, _, value in pairs},
        ))
    return tuple(found)


def complement(text: str) -> Complement:
    """Read `place`, `acc:book,letter`, `to>dat:person` or `for>auf+acc:bus`."""
    if ":" not in text:
        return Complement(kind=text)
    government, _, tags = text.partition(":")
    english, _, german = government.rpartition(">")
    preposition, _, case = german.rpartition("+")
    words = frozenset(tag.replace("_", " ") for tag in tags.split(","))
    return Complement(kind="object", case=case, english=english, german=preposition, tags=words)
