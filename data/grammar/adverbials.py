"""When, where and where to: the parts of a clause that nothing asks for, and those of motion and position."""

from __future__ import annotations

from grammar.clause import Field, Part
from grammar.draw import FEMININE_COUNTRIES, TOWNS, Draw, tagged
from grammar.lexicon import Noun
from grammar.numbers import DAYS, cardinal, clock, ordinal
from grammar.numbers import MONTHS as MONTH_NAMES
from grammar.phrases import THE, Nominal, after_preposition, noun_phrase
from grammar.things import some_adjectives
from grammar.verb import FUTURE, PAST, PAST_MODALS, PRESENT

ALWAYS_TIMES = (("in the morning", "am Morgen"), ("in the evening", "am Abend"), ("in the afternoon", "am Nachmittag"),
                ("at night", "in der Nacht"), ("at the weekend", "am Wochenende"))
PRESENT_TIMES = (("today", "heute"), ("now", "jetzt"), ("every day", "jeden Tag"), ("every morning", "jeden Morgen"),
                 ("every evening", "jeden Abend"), ("every week", "jede Woche"), ("in summer", "im Sommer"),
                 ("in winter", "im Winter"))
PAST_TIMES = (("yesterday", "gestern"), ("last week", "letzte Woche"), ("last year", "letztes Jahr"),
              ("last month", "letzten Monat"), ("this morning", "heute Morgen"),
              ("yesterday evening", "gestern Abend"), ("a week ago", "vor einer Woche"),
              ("a month ago", "vor einem Monat"), ("a year ago", "vor einem Jahr"))
FUTURE_TIMES = (("tomorrow", "morgen"), ("soon", "bald"), ("next week", "nächste Woche"),
                ("next year", "nächstes Jahr"), ("next month", "nächsten Monat"), ("this evening", "heute Abend"),
                ("in an hour", "in einer Stunde"))
UNITS = (("days", "Tagen"), ("weeks", "Wochen"), ("months", "Monaten"), ("years", "Jahren"), ("hours", "Stunden"))
MANNERS = (("slowly", "langsam"), ("quickly", "schnell"), ("carefully", "vorsichtig"))
OFTEN = (("often", "oft"), ("always", "immer"), ("sometimes", "manchmal"), ("usually", "meistens"),
         ("rarely", "selten"))
NEVER = Part("never", "nie", Field.NEGATION, before_verb=True)


def time(draw: Draw, tense: str) -> Part:
    """A time that suits the tense."""
    if draw.chance(0.2):
        return at_the_clock(draw)
    if draw.chance(0.2):
        day = draw.pick(DAYS)
        return Part(f"on {day[0]}", f"am {day[1]}", Field.TIME)
    if tense in (PAST, *PAST_MODALS):
        if draw.chance(0.2):
            return so_long(draw, "", "vor", " ago")
        return _when(draw, PAST_TIMES + ALWAYS_TIMES)
    if tense == PRESENT:
        return _when(draw, PRESENT_TIMES + ALWAYS_TIMES)
    if tense == FUTURE and draw.chance(0.2):
        return so_long(draw, "in ", "in", "")
    return _when(draw, FUTURE_TIMES + ALWAYS_TIMES)


def _when(draw: Draw, choices: tuple[tuple[str, str], ...]) -> Part:
    english, german = draw.pick(choices)
    return Part(english, german, Field.TIME)


def so_long(draw: Draw, before: str, german_preposition: str, after: str) -> Part:
    """Three weeks ago, in three weeks: the German preposition takes the dative."""
    number, unit = cardinal(draw.number(2, 12)), draw.pick(UNITS)
    return Part(f"{before}{number[0]} {unit[0]}{after}", f"{german_preposition} {number[1]} {unit[1]}", Field.TIME)


def at_the_clock(draw: Draw) -> Part:
    """At half past seven: um halb acht."""
    english, german = clock(draw.number(1, 12), draw.number(0, 3))
    return Part(f"at {english}", f"um {german}", Field.TIME)


def on_the_date(draw: Draw) -> Part:
    """On the third of May: am dritten Mai."""
    day, month = ordinal(draw.number(1, 20)), draw.pick(MONTH_NAMES)
    return Part(f"on the {day[0]} of {month[0]}", f"am {day[1]} {month[1]}", Field.TIME)


def frequency(draw: Draw) -> Part:
    """Often, always: before the English verb."""
    english, german = draw.pick(OFTEN)
    return Part(english, german, Field.FREQUENCY, before_verb=True)


def manner(draw: Draw) -> Part:
    """Slowly, carefully."""
    english, german = draw.pick(MANNERS)
    return Part(english, german, Field.MANNER)


def place(draw: Draw) -> Part:
    """Where something happens: a preposition with the dative, chosen by the noun."""
    if draw.chance(0.08):
        return _part(in_town(draw), Field.PLACE)
    if draw.chance(0.08):
        return Part("at home", "zu Hause", Field.PLACE)
    noun = draw.pick(tuple(noun for noun in tagged(frozenset({"place"})) if noun.prepositions[0][0] != "to"))
    return _part(at_place(draw, noun), Field.PLACE)


def at_place(draw: Draw, noun: Noun) -> tuple[str, str]:
    """At the station: am Bahnhof."""
    english, german = noun.prepositions[0]
    return _prepositional(english, german, noun_phrase(noun, THE, some_adjectives(draw, noun, 0.2)), "dat")


def in_town(draw: Draw) -> tuple[str, str]:
    """In Munich; Switzerland and Turkey have an article in German."""
    english, german = draw.pick(TOWNS + FEMININE_COUNTRIES)
    return f"in {english}", f"in der {german}" if (english, german) in FEMININE_COUNTRIES else f"in {german}"


def to_town(draw: Draw) -> tuple[str, str]:
    """To Munich: nach München, but in die Schweiz."""
    english, german = draw.pick(TOWNS + FEMININE_COUNTRIES)
    return f"to {english}", f"in die {german}" if (english, german) in FEMININE_COUNTRIES else f"nach {german}"


def goal(draw: Draw) -> tuple[str, str]:
    """Where one goes: into the kitchen, to the park, home."""
    if draw.chance(0.08):
        return "home", "nach Hause"
    if draw.chance(0.2):
        room = draw.noun("room")
        return _prepositional("into", "in", noun_phrase(room, THE, some_adjectives(draw, room, 0.2)), "acc")
    noun = draw.pick(tuple(noun for noun in tagged(frozenset({"place"})) if dict(noun.prepositions).get("to")))
    german = dict(noun.prepositions)["to"]
    phrase = noun_phrase(noun, THE, some_adjectives(draw, noun, 0.2))
    return _prepositional("to", german, phrase, "dat" if german == "zu" else "acc")


def dwelling(draw: Draw) -> tuple[str, str]:
    """Where one lives."""
    if draw.chance(0.4):
        return in_town(draw)
    return at_place(draw, draw.noun("home"))


def spot(draw: Draw, case: str) -> tuple[str, str]:
    """On the table: auf dem Tisch, where something is; auf den Tisch, where it goes."""
    ways = [(4.0, ("on", "auf", "surface")), (2.0, ("in" if case == "dat" else "into", "in", "container")),
            (1.5, ("under", "unter", "cover")), (1.5, ("next to", "neben", "furniture")),
            (0.8, ("behind", "hinter", "furniture")), (0.8, ("in front of", "vor", "part"))]
    english, german, tag = draw.weighted(ways)
    noun = draw.noun(tag) if tag != "part" else draw.noun("door", "window", "gate")
    return _prepositional(english, german, noun_phrase(noun, THE, some_adjectives(draw, noun, 0.2)), case)


def seat(draw: Draw) -> tuple[str, str]:
    """Where one sits: on the sofa, at the table, next to the bed."""
    english, german, names = draw.pick((("on", "auf", "sofa chair bench bed"), ("at", "an", "table desk window"),
                                        ("next to", "neben", "door window table bed"), ("under", "unter", "tree")))
    noun = draw.noun(*names.split())
    return _prepositional(english, german, noun_phrase(noun, THE, some_adjectives(draw, noun, 0.2)), "dat")


def by_vehicle(draw: Draw) -> Part:
    """By train: mit dem Zug."""
    noun = draw.noun("line", "car", "bicycle", "taxi")
    phrase = noun_phrase(noun, THE)
    return Part(f"by {noun.english}", f"mit {phrase.in_case('dat')}", Field.MANNER)


def _prepositional(english: str, german: str, phrase: Nominal, case: str) -> tuple[str, str]:
    return f"{english} {phrase.english_object}", after_preposition(german, phrase.in_case(case))


def _part(pair: tuple[str, str], field: Field) -> Part:
    return Part(pair[0], pair[1], field)
