"""Drawing noun phrases: which determiner, which adjectives, whose."""

from __future__ import annotations

from grammar.draw import NAMES, Draw, fitting, tagged
from grammar.lexicon import Noun
from grammar.numbers import cardinal
from grammar.phrases import (
    ALL,
    BARE,
    EVERY,
    MANY,
    NO,
    NOT_ANY,
    THE,
    THIS,
    A,
    Determiner,
    Nominal,
    adjective_pair,
    fixed,
    noun_phrase,
    possessive,
)

OWNED = frozenset(["pet", "clothing", "tool", "text", "written", "vehicle", "furniture", "instrument", "picture",
                   "room", "house", "home", "idea", "plan", "boss", "friend", "neighbour", "teacher", "doctor",
                   "colleague", "guest", "lawyer", "part", "party", "journey", "exam"])


def some_adjectives(draw: Draw, noun: Noun, probability: float) -> tuple[tuple[str, str], ...]:
    """None, one, or seldom two adjectives that go with the noun; the second one is a colour (the big red apple)."""
    choices = fitting(noun.tags)
    if not choices or not draw.chance(probability):
        return ()
    first = draw.pick(choices)
    colours = [adjective for adjective in choices if "colour" in adjective.tags]
    if colours and "colour" not in first.tags and draw.chance(0.2):
        return adjective_pair(first), adjective_pair(draw.pick(colours))
    return (adjective_pair(first),)


def named_owner(draw: Draw) -> Determiner:
    """Anna's, which is Annas in German."""
    owner = draw.pick(NAMES)
    return fixed(f"{owner.english}'s", owner.in_case("gen"))


def subject(draw: Draw, tags: frozenset[str]) -> Nominal:
    """The subject for a verb that takes these."""
    if "person" in tags and draw.chance(0.45):
        return draw.someone()
    noun = draw.pick(tagged(tags))
    if "family" in noun.tags:
        return relative_of(draw, noun)
    kind = draw.weighted([(10.0, "the"), (3.0, "plural"), (2.0, "a"), (1.5, "this"), (1.0, "my"), (0.7, "every"),
                          (0.7, "all"), (0.7, "many"), (1.0, "number"), (0.8, "these")])
    if kind in ("plural", "all", "many", "number", "these"):
        some = some_adjectives(draw, noun, 0.25)
        plain = fixed(*cardinal(draw.number(2, 12)))
        determiner = {"plural": THE, "all": ALL, "many": MANY, "number": plain, "these": THIS}[kind]
        return noun_phrase(noun, determiner, some, plural=True)
    owner = possessive(draw.someone()) if draw.chance(0.6) else named_owner(draw)
    if not noun.tags & OWNED:
        owner = THE
    determiner = {"the": THE, "a": A, "this": THIS, "every": EVERY, "my": owner}[kind]
    phrase = noun_phrase(noun, determiner, some_adjectives(draw, noun, 0.3 if kind != "every" else 0.05))
    if kind == "the" and draw.chance(0.06) and noun.tags & OWNED and "person" not in noun.tags:
        return owned(draw, phrase)
    return phrase


def relative_of(draw: Draw, noun: Noun) -> Nominal:
    """My mother, Anna's brother, the old woman's son is left to `owned`."""
    owner = possessive(draw.someone()) if draw.chance(0.75) else named_owner(draw)
    return noun_phrase(noun, owner, some_adjectives(draw, noun, 0.1), plural=_is_plural(draw, noun))


def _is_plural(draw: Draw, noun: Noun) -> bool:
    """Several brothers, but one mother."""
    return "parent" not in noun.tags and draw.chance(0.15)


def owned(draw: Draw, phrase: Nominal) -> Nominal:
    """The house of the old man: a German genitive."""
    owner = draw.pick(tuple(noun for noun in tagged(frozenset({"person"})) if "family" not in noun.tags))
    whole = noun_phrase(owner, THE, some_adjectives(draw, owner, 0.25), plural=draw.chance(0.25))
    return phrase.followed_by(f"of {whole.english}", whole.in_case("gen"))


def thing(draw: Draw, tags: frozenset[str], owner: Nominal, *, negated: bool, may_be_pronoun: bool = True) -> Nominal:
    """An object; with `negated` an indefinite one says no (kein) by itself. "his" refers to `owner`."""
    noun = draw.pick(tagged(tags))
    if "person" in noun.tags and may_be_pronoun and draw.chance(0.25):
        return someone_else(draw, owner)
    if "mass" in noun.tags:
        return substance(draw, noun, negated=negated)
    if "family" in noun.tags:
        return family_member(draw, noun, owner)
    kind = draw.weighted([(9.0, "the"), (7.0, "a"), (3.0, "own"), (1.5, "this"), (2.0, "plural"), (2.0, "some"),
                          (1.0, "name's"), (0.6, "many"), (1.0, "number"), (0.5, "these"), (0.4, "all")])
    if negated and kind in ("many", "number", "all"):
        kind = "the"
    if kind in ("plural", "some", "many", "number", "these", "all"):
        determiner = {"plural": THE, "some": NOT_ANY if negated else BARE, "many": MANY, "these": THIS, "all": ALL,
                      "number": fixed(*cardinal(draw.number(2, 20)))}[kind]
        return noun_phrase(noun, determiner, some_adjectives(draw, noun, 0.35), plural=True)
    if kind in ("own", "name's") and not noun.tags & OWNED:
        kind = "the"
    determiner = {"the": THE, "a": NO if negated else A, "own": possessive(owner), "this": THIS,
                  "name's": named_owner(draw)}[kind]
    phrase = noun_phrase(noun, determiner, some_adjectives(draw, noun, 0.35))
    if kind == "the" and noun.tags & OWNED and draw.chance(0.08):
        return owned(draw, phrase)
    return phrase


def someone_else(draw: Draw, subject_: Nominal) -> Nominal:
    """A person who is not the subject: never "I see me" or "we see me"."""
    speakers = ("ich", "wir")
    while True:
        other = draw.someone()
        is_same = other.pronoun == subject_.pronoun or (other.person in speakers and subject_.person in speakers)
        if not is_same:
            return other


def substance(draw: Draw, noun: Noun, *, negated: bool) -> Nominal:
    """Coffee, the coffee, fresh bread; a language never has an article."""
    if "language" in noun.tags:
        return noun_phrase(noun, Determiner("", "", "kein", "ein-word") if negated else BARE)
    adjectives = some_adjectives(draw, noun, 0.3)
    if draw.chance(0.4):
        return noun_phrase(noun, THE, adjectives)
    return noun_phrase(noun, NOT_ANY if negated else BARE, adjectives)


def family_member(draw: Draw, noun: Noun, owner: Nominal) -> Nominal:
    """Mostly one's own."""
    determiner = possessive(owner) if draw.chance(0.75) else named_owner(draw)
    return noun_phrase(noun, determiner, some_adjectives(draw, noun, 0.1), plural=_is_plural(draw, noun))
