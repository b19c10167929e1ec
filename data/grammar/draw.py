"""Chance: every choice of the grammar goes through here, so that a seed fixes the corpus on every Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from grammar.lexicon import Adjective, Noun, VerbEntry, adjectives, nouns, verbs
from grammar.phrases import HE, SHE, SPEAKERS, THEY, Nominal, name

T = TypeVar("T")
WOMEN = ["Anna", "Maria", "Julia", "Laura", "Sophie", "Emma", "Lena", "Clara", "Eva", "Sarah"]
MEN = ["Paul", "Peter", "David", "Martin", "Stefan", "Robert", "Michael", "Daniel", "Oliver", "Simon"]
NAMES = (*(name(word, word, "she") for word in WOMEN), *(name(word, word, "he") for word in MEN))
TOWNS = (("Berlin", "Berlin"), ("Hamburg", "Hamburg"), ("Munich", "München"), ("Vienna", "Wien"), ("Cologne", "Köln"),
         ("Zurich", "Zürich"), ("Paris", "Paris"), ("London", "London"), ("Rome", "Rom"), ("Prague", "Prag"),
         ("Brussels", "Brüssel"), ("Warsaw", "Warschau"), ("Germany", "Deutschland"), ("Austria", "Österreich"),
         ("France", "Frankreich"), ("Italy", "Italien"), ("Spain", "Spanien"), ("Poland", "Polen"),
         ("Sweden", "Schweden"), ("England", "England"))
FEMININE_COUNTRIES = (("Switzerland", "Schweiz"), ("Turkey", "Türkei"))     # German: with an article


@cache
def tagged(tags: frozenset[str]) -> tuple[Noun, ...]:
    """The nouns that bear one of the tags, in the order of the table."""
    return tuple(noun for noun in nouns() if noun.tags & tags)


@cache
def fitting(tags: frozenset[str]) -> tuple[Adjective, ...]:
    """The adjectives that go with a noun of these tags."""
    return tuple(adjective for adjective in adjectives() if adjective.tags & tags)


@cache
def taking(kind: str) -> tuple[VerbEntry, ...]:
    """The verbs whose one complement is of this kind, such as a clause with that."""
    return tuple(entry for entry in verbs() if [complement.kind for complement in entry.complements] == [kind])


@cache
def of_one_object(subjects: frozenset[str]) -> tuple[VerbEntry, ...]:
    """The verbs with one object and no preposition: what, whom and which can ask for it."""
    return tuple(entry for entry in governing(subjects, frozenset({"object"}))
                 if len(entry.complements) == 1 and not entry.complements[0].german)


def verb_named(english: str, kind: str = "object") -> VerbEntry:
    """The verb of this English name whose first complement is of this kind."""
    return next(entry for entry in verbs() if entry.english[0] == english
                and entry.complements and entry.complements[0].kind == kind)


@cache
def governing(subjects: frozenset[str], kinds: frozenset[str]) -> tuple[VerbEntry, ...]:
    """The verbs for a subject of these tags, whose complements are all of these kinds."""
    return tuple(entry for entry in verbs() if entry.subjects & subjects
                 and all(complement.kind in kinds for complement in entry.complements))


class Draw:
    """A source of choices. Only `random()` of the standard generator is used: its values never change."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def number(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self._random.random() * (high - low + 1))

    def pick(self, choices: Sequence[T]) -> T:
        """One of them, each as likely."""
        return choices[int(self._random.random() * len(choices))]

    def weighted(self, choices: Sequence[tuple[float, T]]) -> T:
        """One of them by weight."""
        left = self._random.random() * sum(weight for weight, _ in choices)
        for weight, choice in choices:
            left -= weight
            if left < 0:
                return choice
        return choices[-1][1]

    def noun(self, *tags: str) -> Noun:
        """A noun with one of the tags."""
        return self.pick(tagged(frozenset(tags)))

    def someone(self) -> Nominal:
        """A person by pronoun or name."""
        if self.chance(0.5):
            return self.pick(NAMES)
        return self.weighted([(3.0, SPEAKERS[0]), (2.0, SPEAKERS[1]), (2.0, SPEAKERS[2]), (2.0, HE), (2.0, SHE),
                              (1.5, THEY)])
