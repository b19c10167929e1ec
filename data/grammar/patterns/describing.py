"""How things are and where: to be, comparatives, positions."""

from __future__ import annotations

from grammar import adverbials
from grammar.clause import Clause, Field, Part, sentence, words
from grammar.draw import NAMES, Draw, adjectives, nouns, verbs
from grammar.frames import PERSON
from grammar.lexicon import Adjective, Noun
from grammar.patterns.subordinate import predicate, state
from grammar.phrases import THE, THIS, Nominal, noun_phrase, possessive
from grammar.things import OWNED, relative_of, subject
from grammar.verb import FUTURE, PAST, PRESENT, TO_BE, Verb

DEGREES = (("", ""), ("very", "sehr"), ("too", "zu"), ("not", ""))


def _described(draw: Draw, *, compared: bool) -> tuple[Noun, Adjective]:
    """A noun and an adjective that goes with it."""
    while True:
        noun = draw.pick([noun for noun in nouns() if "language" not in noun.tags])
        fitting = [a for a in adjectives() if a.tags & noun.tags and (a.comparative or not compared)]
        if fitting:
            return noun, draw.pick(fitting)


def _phrase(draw: Draw, noun: Noun, *, plural: bool) -> Nominal:
    if "family" in noun.tags:
        return relative_of(draw, noun)
    owner = possessive(draw.someone()) if noun.tags & OWNED else THE
    determiner = draw.weighted([(5.0, THE), (2.0, THIS), (1.5, owner)])
    return noun_phrase(noun, determiner, plural=plural)


def how_it_is(draw: Draw) -> tuple[str, str]:
    """The house is not very big."""
    tense = draw.weighted([(4.0, PRESENT), (2.5, PAST)])
    if draw.chance(0.3):
        clause = state(draw, subject(draw, PERSON), tense)
        if draw.chance(0.4):
            clause = clause.with_parts(adverbials.time(draw, tense))
    else:
        noun, adjective = _described(draw, compared=False)
        phrase = _phrase(draw, noun, plural=noun.plural != "" and draw.chance(0.3))
        english, german = draw.pick(DEGREES if adjective.comparative else (DEGREES[0], DEGREES[-1]))
        negated = english == "not"
        clause = Clause(phrase, TO_BE, tense, (predicate(adjective, "" if negated else english, german),), negated,
                        negated)
    if draw.chance(0.15) and not clause.negated:
        return sentence(clause.english_question(), clause.german_verb_first(), "?")
    return sentence(clause.english(), clause.german())


def comparison(draw: Draw) -> tuple[str, str]:
    """Anna is older than her brother; the tower is as high as the bridge."""
    noun, adjective = _described(draw, compared=True)
    if "person" in noun.tags and draw.chance(0.4):
        first: Nominal = draw.pick(NAMES)
    else:
        first = _phrase(draw, noun, plural=False)
    others = [other for other in nouns()
              if other.kind == noun.kind and adjective.tags & other.tags and other is not noun]
    other = draw.pick(others)
    second = _phrase(draw, other, plural=first.person == "sie" and other.plural != "")
    if draw.chance(0.35):
        degree = (f"as {adjective.english} as {second.english_object}",
                  f"so {adjective.german} wie {second.in_case('nom')}")
    else:
        degree = (f"{adjective.comparative} than {second.english_object}",
                  f"{adjective.german_comparative} als {second.in_case('nom')}")
    negated = draw.chance(0.2)
    clause = Clause(first, TO_BE, draw.weighted([(4.0, PRESENT), (1.0, PAST)]),
                    (Part(*degree, Field.PREDICATE),), negated, negated)
    return sentence(clause.english(), clause.german())


def location(draw: Draw) -> tuple[str, str]:
    """The book lies on the table, the lamp stands next to the sofa, the children are in the garden."""
    tense = draw.weighted([(3.0, PRESENT), (1.0, PAST), (0.5, FUTURE)])
    if draw.chance(0.5):
        where = adverbials.place(draw)
        part = Part(where.english, where.german, Field.PREDICATE)
        parts = (part, adverbials.time(draw, tense)) if draw.chance(0.4) else (part,)
        negated = draw.chance(0.2)
        clause = Clause(subject(draw, PERSON), TO_BE, tense, parts, negated, negated)
        return sentence(clause.english(), clause.german())
    entry = draw.pick([entry for entry in verbs() if [wanted.kind for wanted in entry.complements] == ["spot"]])
    who = subject(draw, entry.subjects)
    clause = Clause(who, Verb(entry), tense, (Part(*adverbials.spot(draw, "dat"), Field.PREDICATE),))
    if draw.chance(0.25) and tense == PRESENT:
        where = clause.parts[0]
        bare = Clause(who, clause.verb, tense)
        return sentence(words(where.english, bare.english()), bare.german_verb_first(where.german))
    return sentence(clause.english(), clause.german())
