"""Two main clauses in one sentence."""

from __future__ import annotations

from dataclasses import replace

from grammar import adverbials
from grammar.clause import Clause, Field, Part, sentence, words
from grammar.draw import Draw, tagged, verb_named
from grammar.frames import PERSON, person_clause
from grammar.phrases import THE, A, Nominal, noun_phrase, possessive, taken_up
from grammar.things import some_adjectives, subject
from grammar.verb import FUTURE, PAST, PRESENT, Verb

# What one does to a thing, one after the other: pairs of verbs that take the same nouns.
CHAINS = (("buy", "eat", "food"), ("find", "read", "text"), ("buy", "repair", "road device"),
          ("open", "read", "letter"), ("write", "send", "letter postcard message"), ("find", "wash", "clothing"),
          ("look for", "find", "tool clothing"), ("see", "photograph", "animal"), ("catch", "feed", "rabbit bird"),
          ("invite", "call", "person"), ("meet", "help", "person"), ("visit", "thank", "person"),
          ("read", "translate", "text"), ("wash", "peel", "fruit"), ("open", "unpack", "suitcase box bag present"),
          ("paint", "sell", "picture"), ("find", "correct", "mistake"), ("understand", "answer", "question"),
          ("understand", "solve", "problem exercise"), ("pack", "forget", "camera present"),
          ("order", "drink", "drink"), ("build", "sell", "boat shelf"))


def two_actions(draw: Draw) -> tuple[str, str]:
    """Anna cooks and Paul reads the newspaper."""
    first = person_clause(draw, subject(draw, PERSON), tense=draw.pick((PRESENT, PAST)), negated=False)
    second = person_clause(draw, subject(draw, PERSON), tense=first.tense, negated=False)
    return sentence(words(first.english(), "and", second.english()), words(first.german(), "und", second.german()))


def but(draw: Draw) -> tuple[str, str]:
    """He works, but he does not earn ...: the order stays that of a main clause."""
    first = person_clause(draw, subject(draw, PERSON), tense=draw.pick((PRESENT, PAST)), negated=False)
    who = subject(draw, PERSON) if draw.chance(0.5) else taken_up(first.subject)
    second = person_clause(draw, who, tense=first.tense, negated=True)
    return sentence(words(first.english(), ", but", second.english()),
                    words(first.german(), ", aber", second.german()))


def and_then_it(draw: Draw) -> tuple[str, str]:
    """The man bought a lamp and repaired it: it is er, sie or es by the noun."""
    opening, following, names = draw.pick(CHAINS)
    noun = draw.pick([noun for noun in tagged(frozenset(names.split())) if "family" not in noun.tags])
    who = subject(draw, PERSON)
    plural = noun.plural != "" and draw.chance(0.25)
    determiner = draw.weighted([(3.0, THE), (2.0, possessive(who) if plural else A)])
    if "mass" in noun.tags:
        determiner = THE
    phrase = noun_phrase(noun, determiner, some_adjectives(draw, noun, 0.3), plural=plural)
    tense = draw.weighted([(2.0, PAST), (2.0, PRESENT), (1.0, FUTURE)])
    first, second = _doing(opening), _doing(following)
    if first.hides_tense(tense, who.person) or second.hides_tense(tense, who.person):
        tense = FUTURE
    earlier = _with_object(Clause(who, first, tense), phrase)
    later = _with_object(Clause(who, second, tense), taken_up(phrase))
    if tense != PAST and draw.chance(0.3):
        when = adverbials.time(draw, tense)
        english, german = earlier.fronted(when)
    else:
        english, german = earlier.english(), earlier.german()
    again = replace(later, subject=taken_up(who))
    return sentence(words(english, "and then", again.english()), words(german, "und dann", again.german_verb_first()))


def _doing(english: str) -> Verb:
    return Verb(verb_named(english))


def _with_object(clause: Clause, phrase: Nominal) -> Clause:
    case = [wanted.case for wanted in clause.verb.entry.complements][-1]
    field = Field.PRONOUN if phrase.is_pronoun else Field.DEFINITE if phrase.is_definite else Field.INDEFINITE
    return clause.with_parts(Part(phrase.english_object, phrase.in_case(case), field))
