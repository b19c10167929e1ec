"""Numbers, in words and in digits; prices, ages, timetables and dates."""

from __future__ import annotations

from grammar import adverbials
from grammar.clause import Clause, Field, Part, sentence, words
from grammar.draw import NAMES, Draw, of_one_object, tagged, verb_named, verbs
from grammar.frames import PERSON
from grammar.numbers import cardinal
from grammar.phrases import SPEAKERS, THE, THIS, Nominal, fixed, noun_phrase, possessive
from grammar.things import some_adjectives, subject
from grammar.verb import FUTURE, PAST, PRESENT, TO_BE, Verb

COUNTED = frozenset(["person", "animal", "furniture", "tool", "clothing", "fruit", "text", "vehicle", "plant",
                     "picture"])
THERE = {PRESENT: ("there are", "gibt"), PAST: ("there were", "gab")}


def _number(draw: Draw, low: int, high: int) -> tuple[str, str]:
    """A number: mostly in words, else in digits, which are the same in both languages."""
    number = draw.number(low, high)
    if draw.chance(0.35):
        return str(number), str(number)
    return cardinal(number)


def _some(draw: Draw) -> Nominal:
    """Twenty-one new books."""
    noun = draw.pick([noun for noun in tagged(COUNTED) if "family" not in noun.tags])
    return noun_phrase(noun, fixed(*_number(draw, 2, 99)), some_adjectives(draw, noun, 0.25), plural=True)


def there_are(draw: Draw) -> tuple[str, str]:
    """There are three lamps in the room: im Zimmer gibt es, es gibt; both with the accusative."""
    some, where = _some(draw), adverbials.place(draw)
    english, german = THERE[draw.weighted([(3.0, PRESENT), (1.0, PAST)])]
    if draw.chance(0.4):
        return sentence(words(where.english, english, some.english_object),
                        words(where.german, german, "es", some.in_case("acc")))
    return sentence(words(english, some.english_object, where.english),
                    words("es", german, where.german, some.in_case("acc")))


def price_and_age(draw: Draw) -> tuple[str, str]:
    """The coat costs 80 euros; my aunt is forty-five years old."""
    number = _number(draw, 2, 99)
    if draw.chance(0.5):
        who: Nominal = draw.pick(NAMES) if draw.chance(0.4) else subject(draw, PERSON)
        part = Part(f"{number[0]} years old", f"{number[1]} Jahre alt", Field.PREDICATE)
        clause = Clause(who, TO_BE, draw.weighted([(4.0, PRESENT), (1.0, PAST), (1.0, FUTURE)]), (part,))
        return sentence(clause.english(), clause.german())
    if draw.chance(0.25):
        number = cardinal(100 * draw.number(1, 9))
    noun = draw.noun("clothing", "tool", "furniture", "instrument", "picture", "text", "road")
    plural = draw.chance(0.25)
    phrase = noun_phrase(noun, draw.pick((THE, THE, THIS)), some_adjectives(draw, noun, 0.35), plural=plural)
    costs = Verb(verb_named("cost", "price"))
    tense = FUTURE if costs.hides_tense(PRESENT, phrase.person) else draw.pick((PRESENT, PAST))
    part = Part(f"{number[0]} euros", f"{number[1]} Euro", Field.PREDICATE)
    clause = Clause(phrase, costs, tense, (part,))
    return sentence(clause.english(), clause.german())


def timetable(draw: Draw) -> tuple[str, str]:
    """The train departs at half past seven: der Zug fährt um halb acht ab."""
    entry = draw.pick([entry for entry in verbs() if entry.subjects & {"line", "event", "plane"}])
    noun = draw.pick(tagged(entry.subjects - {"guest"}))
    phrase = noun_phrase(noun, draw.pick((THE, THE, THIS)), some_adjectives(draw, noun, 0.15))
    clause = Clause(phrase, Verb(entry), draw.pick((PRESENT, PRESENT, PAST, FUTURE)))
    when = adverbials.at_the_clock(draw) if draw.chance(0.7) else adverbials.on_the_date(draw)
    if draw.chance(0.25):
        return sentence(clause.english_question("when"), clause.german_verb_first("wann"), "?")
    if draw.chance(0.25):
        return sentence(*clause.fronted(when))
    clause = clause.with_parts(when)
    return sentence(clause.english(), clause.german())


def birthday(draw: Draw) -> tuple[str, str]:
    """On the third of May we will visit our aunt: am dritten Mai."""
    who = subject(draw, PERSON)
    date = adverbials.on_the_date(draw)
    if draw.chance(0.4):
        owner = possessive(who) if who.person in ("ich", "du", "wir") else possessive(draw.someone())
        birthday_of = (f"{owner.english} birthday is {date.english}", f"{owner.german} Geburtstag ist {date.german}")
        return sentence(*birthday_of)
    noun = draw.noun("family", "sight")
    family = noun_phrase(noun, possessive(SPEAKERS[0]) if "family" in noun.tags else THE)
    part = Part(family.english_object, family.in_case("acc"), Field.DEFINITE)
    clause = Clause(who, Verb(verb_named("visit")), draw.pick((PAST, FUTURE)), (part,))
    return sentence(*clause.fronted(date))


def how_many(draw: Draw) -> tuple[str, str]:
    """How many apples did you buy? Wie viele Äpfel hast du gekauft?"""
    verb = Verb(draw.pick([entry for entry in of_one_object(PERSON) if entry.complements[0].case == "acc"]))
    nouns = [noun for noun in tagged(verb.entry.complements[0].tags) if noun.plural and "family" not in noun.tags]
    if not nouns:
        return there_are(draw)
    noun = draw.pick(nouns)
    phrase = noun_phrase(noun, fixed("how many", "wie viele"), some_adjectives(draw, noun, 0.2), plural=True)
    tenses = (PRESENT, PAST) if "stative" in verb.entry.remarks else (PRESENT, PAST, FUTURE, "must")
    clause = Clause(SPEAKERS[1] if draw.chance(0.4) else subject(draw, PERSON), verb, draw.pick(tenses))
    german = clause.german_verb_first(phrase.in_case("acc"))
    return sentence(clause.english_question(phrase.english_object), german, "?")
