"""The order of a clause: English keeps one, German has three (verb second, verb first, verb last)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum

from grammar.phrases import REFLEXIVE, Nominal
from grammar.verb import PROGRESSIVE, Verb


class Field(IntEnum):
    """Where a part stands between the German verb and the end of its clause, from left to right."""

    PRONOUN = 0
    TIME = 1
    FREQUENCY = 2
    DATIVE = 3
    DEFINITE = 4
    NEGATION = 5            # nicht, nie
    MANNER = 6
    PLACE = 7
    INDEFINITE = 8
    PREDICATE = 9           # and what belongs to the verb: a direction, a preposition


@dataclass(frozen=True)
class Part:
    """A piece of a clause in both languages."""

    english: str
    german: str
    field: Field
    before_verb: bool = False       # in English: often, never


NOT = Part("", "nicht", Field.NEGATION)
GERADE = Part("", "gerade", Field.TIME)         # what the English -ing form says


@dataclass(frozen=True)
class Clause:
    """Subject, verb and parts; the parts are in English order."""

    subject: Nominal
    verb: Verb
    tense: str
    parts: tuple[Part, ...] = ()
    negated: bool = False                       # with a "not" at the English verb
    german_nicht: bool = False                  # and a nicht in German, where no kein says it

    # --- English ---------------------------------------------------------------------------------------------------
    def _english_rest(self) -> list[str]:
        return [part.english for part in self.parts if not part.before_verb]

    def _adverbs(self) -> list[str]:
        return [part.english for part in self.parts if part.before_verb]

    def english(self, *, without_subject: bool = False) -> str:
        """The clause in English order."""
        auxiliary, verb = self.verb.english_group(self.tense, self.subject.person, do=self.negated)
        subject = "" if without_subject else self.subject.english
        return words(subject, auxiliary, "not" if self.negated else "", *self._adverbs(), verb, *self._english_rest())

    def english_question(self, opening: str = "") -> str:
        """The auxiliary before the subject, after a question word if there is one."""
        auxiliary, verb = self.verb.english_group(self.tense, self.subject.person, do=True)
        return words(opening, auxiliary, self.subject.english, "not" if self.negated else "", *self._adverbs(), verb,
                     *self._english_rest())

    def english_infinitive(self) -> str:
        """To read the book."""
        return words("to", self.verb.base, *self._english_rest())

    # --- German ----------------------------------------------------------------------------------------------------
    def middle(self) -> str:
        """All between the two parts of the verb."""
        parts = list(self.parts)
        if self.verb.entry.is_reflexive:
            parts.append(Part("", REFLEXIVE[self.subject.person], Field.PRONOUN))
        if self.german_nicht:
            parts.append(NOT)
        if self.tense == PROGRESSIVE:
            parts.append(GERADE)
        return words(*(part.german for part in sorted(parts, key=lambda part: part.field)))

    def german(self, *, without_subject: bool = False) -> str:
        """Verb second, the subject first."""
        verb = self.verb.german_group(self.tense, self.subject.person)
        subject = "" if without_subject else self.subject.in_case("nom")
        return words(subject, verb.finite, self.middle(), verb.bracket)

    def german_verb_first(self, opening: str = "") -> str:
        """The subject behind the verb: a question, or a main clause that opens with something else."""
        verb = self.verb.german_group(self.tense, self.subject.person)
        return words(opening, verb.finite, self.subject.in_case("nom"), self.middle(), verb.bracket)

    def german_verb_last(self, opening: str = "", *, without_subject: bool = False) -> str:
        """A subordinate clause."""
        verb = self.verb.german_group(self.tense, self.subject.person)
        subject = "" if without_subject else self.subject.in_case("nom")
        return words(opening, subject, self.middle(), verb.final)

    def german_infinitive(self) -> str:
        """das Buch zu lesen."""
        return words(self.middle(), self.verb.zu_infinitive)

    # --- changes ---------------------------------------------------------------------------------------------------
    def with_parts(self, *parts: Part) -> Clause:
        """The same clause with more parts behind."""
        return replace(self, parts=(*self.parts, *parts))

    def fronted(self, part: Part) -> tuple[str, str]:
        """The clause opened by a part: English leaves its order, German puts the verb second."""
        return words(part.english, self.english()), self.german_verb_first(part.german)


def words(*pieces: str) -> str:
    """Join what is not empty."""
    return " ".join(piece for piece in pieces if piece)


def sentence(english: str, german: str, mark: str = ".") -> tuple[str, str]:
    """Capital letter, end mark, and commas where a clause ended."""
    return _finish(english.replace("can not", "cannot"), mark), _finish(german, mark)


def _finish(text: str, mark: str) -> str:
    text = re.sub(r"\s*,(\s*,)*", ",", text + mark)
    text = re.sub(r",\s*([.?!])$", r"\1", text)
    return text[0].upper() + text[1:]
