"""Subordinate clauses: the German verb goes to the end, and pronouns agree across clauses."""

from __future__ import annotations

from grammar.clause import Clause, Field, Part, sentence, words
from grammar.draw import Draw, adjectives, governing, tagged, taking, verb_named, verbs
from grammar.frames import PERSON, frame, is_past, person_clause
from grammar.lexicon import Adjective, Complement, Noun
from grammar.phrases import (
    CASES,
    IT,
    RELATIVE,
    THE,
    THIS,
    A,
    Nominal,
    noun_phrase,
    taken_up,
)
from grammar.things import some_adjectives, subject
from grammar.verb import FUTURE, PAST, PRESENT, PROGRESSIVE, TO_BE, Verb

STATES = tuple(adjective for adjective in adjectives() if "state" in adjective.tags)
GOOD = ("beautiful", "cheap", "good", "practical", "modern", "elegant", "interesting", "comfortable", "new", "funny",
        "important", "wonderful")
BAD = ("ugly", "expensive", "bad", "heavy", "long", "short", "boring", "dirty", "old", "small", "big", "cold", "hot",
       "difficult", "sweet")
WEATHER = ("cold", "warm", "hot", "dark")
WISHES = (("sleep", ""), ("rest", ""), ("work", ""), ("swim", ""), ("dance", ""), ("go", "goal"), ("travel", "town"),
          ("play", "instrument"), ("help", "object"), ("meet", "object"), ("visit", "object"), ("read", "object"),
          ("learn", "object"), ("see", "object"), ("thank", "object"), ("cook", "object"), ("call", "object"))
DUTIES = (("work", ""), ("get up", ""), ("go shopping", ""), ("hurry", ""), ("go", "goal"), ("drive", "goal"),
          ("travel", "town"), ("learn", "object"), ("help", "object"), ("write", "object"), ("repair", "object"),
          ("clean", "object"), ("tidy up", "object"), ("prepare", "object"), ("wait", "object"),
          ("take care", "object"), ("pick up", "object"), ("wash", "object"), ("answer", "object"),
          ("feed", "object"))
CHOOSING = ("buy", "wear", "need", "order", "read", "answer", "solve", "use", "eat", "drink")


def predicate(adjective: Adjective, english: str = "", german: str = "") -> Part:
    """Tired; with a word before it: too expensive, zu teuer."""
    return Part(words(english, adjective.english), words(german, adjective.german), Field.PREDICATE)


def state(draw: Draw, who: Nominal, tense: str) -> Clause:
    """He is very tired."""
    adjective = draw.pick(STATES)
    openings = [("", ""), ("", ""), ("very", "sehr"), ("too", "zu")]
    opening = draw.pick(openings[:3] if adjective.english in ("happy", "healthy") else openings)
    return Clause(who, TO_BE, tense, (predicate(adjective, *opening),))


def weather(draw: Draw, tense: str) -> Clause:
    """It rains, it snows, it is cold."""
    entries = [entry for entry in verbs() if "it" in entry.subjects]
    if draw.chance(0.6):
        return Clause(IT, Verb(draw.pick(entries)), tense)
    adjective = draw.pick([adjective for adjective in adjectives() if adjective.english in WEATHER])
    return Clause(IT, TO_BE, tense, (predicate(adjective),))


def because_of_state(draw: Draw) -> tuple[str, str]:
    """The man sleeps because he is tired; although he is not."""
    clause = frame(draw, who=subject(draw, PERSON))
    tense = PAST if is_past(clause.tense) else PRESENT
    who = taken_up(clause.subject)
    if draw.chance(0.2):
        reason = weather(draw, tense)
    else:
        reason = state(draw, who, tense) if draw.chance(0.6) else _wish(draw, who, past=tense == PAST)
    english, german = draw.weighted([(3.0, ("because", "weil")), (1.5, ("although", "obwohl"))])
    return sentence(words(clause.english(), english, reason.english()),
                    words(clause.german(), ",", reason.german_verb_last(german)))


def _wish(draw: Draw, who: Nominal, *, past: bool) -> Clause:
    """He wanted to sleep: a wish or a duty that gives a reason."""
    tense, choices = draw.pick((("wanted to" if past else "want to", WISHES), ("had to" if past else "must", DUTIES)))
    name, kind = draw.pick(choices)
    entry = verb_named(name, kind) if kind else next(entry for entry in verbs() if entry.english[0] == name)
    return frame(draw, who=who, verb=Verb(entry), tense=tense, negated=False, adverbs=False)


def because_it(draw: Draw) -> tuple[str, str]:
    """She did not buy the lamp because it was too expensive: weil sie zu teuer war."""
    verb = Verb(draw.pick([entry for entry in governing(PERSON, frozenset({"object"}))
                           if entry.english[0] in CHOOSING]))
    negated = draw.chance(0.5)
    noun, adjective = _judged(draw, verb.entry.complements[0], BAD if negated else GOOD)
    plural = noun.plural != "" and draw.chance(0.25)
    phrase = noun_phrase(noun, THIS if draw.chance(0.2) else THE, plural=plural)
    who = subject(draw, PERSON)
    tense = draw.pick((PAST, PRESENT))
    if verb.hides_tense(tense, who.person):
        tense = FUTURE
    part = Part(phrase.english_object, phrase.in_case("acc"), Field.DEFINITE)
    clause = Clause(who, verb, tense, (part,), negated, negated)
    opening = ("too", "zu") if negated else draw.pick((("", ""), ("very", "sehr")))
    reason = Clause(taken_up(phrase), TO_BE, PAST if tense == PAST else PRESENT, (predicate(adjective, *opening),))
    return sentence(words(clause.english(), "because", reason.english()),
                    words(clause.german(), ",", reason.german_verb_last("weil")))


def _judged(draw: Draw, wanted: Complement, words_: tuple[str, ...]) -> tuple[Noun, Adjective]:
    """A noun that the verb takes, and an adjective of the list that goes with it."""
    pairs = [(noun, adjective) for noun in tagged(wanted.tags) for adjective in adjectives()
             if adjective.english in words_ and adjective.tags & noun.tags]
    return draw.pick(pairs)


def if_then(draw: Draw) -> tuple[str, str]:
    """If it rains, we will stay at home: wenn es regnet, ..."""
    who = subject(draw, PERSON)
    kind = draw.pick(("weather", "state", "state", "wish"))
    if kind == "weather":
        condition = weather(draw, PRESENT)
    elif kind == "state":
        condition = state(draw, who, PRESENT)
    else:
        condition = person_clause(draw, who, tense="want to", negated=False)
    follower = who if kind == "weather" else taken_up(who)
    tense = draw.pick((FUTURE, "can", "should", "must"))
    result = person_clause(draw, follower, tense=tense, negated=tense != "must" and draw.chance(0.2))
    if draw.chance(0.6) or kind != "weather":
        return sentence(words("if", condition.english(), ",", result.english()),
                        words(condition.german_verb_last("wenn"), ",", result.german_verb_first()))
    return sentence(words(result.english(), "if", condition.english()),
                    words(result.german(), ",", condition.german_verb_last("wenn")))


def when_something_happened(draw: Draw) -> tuple[str, str]:
    """When the guests arrived, the cook was in the kitchen: als; before, while: bevor, während."""
    english, german = draw.weighted([(3.0, ("when", "als")), (2.0, ("before", "bevor")), (1.0, ("while", "während"))])
    who = subject(draw, PERSON)
    first = person_clause(draw, who, tense=PAST, negated=False)
    second = person_clause(draw, taken_up(who) if draw.chance(0.5) else subject(draw, PERSON), tense=PAST,
                           negated=english == "when" and draw.chance(0.15))
    if draw.chance(0.6):
        return sentence(words(english, first.english(), ",", second.english()),
                        words(first.german_verb_last(german), ",", second.german_verb_first()))
    return sentence(words(second.english(), english, first.english()),
                    words(second.german(), ",", first.german_verb_last(german)))


def says_that(draw: Draw) -> tuple[str, str]:
    """I know that the dog sleeps in the garden: dass der Hund im Garten schläft."""
    verb = Verb(draw.pick(taking("that")))
    clause = Clause(subject(draw, PERSON), verb, draw.pick((PRESENT, PRESENT, PAST)))
    said = state(draw, subject(draw, PERSON), PRESENT) if draw.chance(0.15) else frame(draw)
    return sentence(words(clause.english(), "that", said.english()),
                    words(clause.german(), ",", said.german_verb_last("dass")))


def _antecedent(draw: Draw, noun: Noun) -> Nominal:
    determiner = draw.weighted([(4.0, THE), (1.0, A), (0.7, THIS)])
    plural = determiner is THE and draw.chance(0.25)
    return noun_phrase(noun, determiner, some_adjectives(draw, noun, 0.25), plural=plural)


def _relative(phrase: Nominal, case: str) -> str:
    return RELATIVE[phrase.gender][CASES.index(case)]


def _people() -> list[Noun]:
    return [noun for noun in tagged(PERSON) if "family" not in noun.tags]


def relative_subject(draw: Draw) -> tuple[str, str]:
    """The woman who sells flowers is tired: die Frau, die Blumen verkauft, ist müde."""
    phrase = _antecedent(draw, draw.pick(_people()))
    inner = person_clause(draw, phrase, tense=draw.pick((PRESENT, PAST)), negated=draw.chance(0.1))
    who = phrase.followed_by(
        words("who", inner.english(without_subject=True)),
        words(",", inner.german_verb_last(_relative(phrase, "nom"), without_subject=True), ","))
    if draw.chance(0.3):
        return _known(draw, who)
    if draw.chance(0.35):
        clause = state(draw, who, draw.pick((PRESENT, PAST)))
    else:
        clause = person_clause(draw, who, tense=draw.weighted([(3.0, PRESENT), (2.0, PAST), (1.0, "want to")]),
                               negated=draw.chance(0.15))
    return sentence(clause.english(), clause.german())


def _known(draw: Draw, whom: Nominal) -> tuple[str, str]:
    """We know the woman who sells flowers."""
    entries = [entry for entry in governing(PERSON, frozenset({"object"}))
               if entry.english[0] in ("know", "see", "hear", "love", "help", "thank", "trust", "like", "visit")]
    verb = Verb(draw.pick(entries))
    case = verb.entry.complements[0].case
    part = Part(whom.english_object, whom.in_case(case), Field.DEFINITE)
    clause = Clause(draw.someone(), verb, PRESENT, (part,))
    return sentence(clause.english(), clause.german())


def relative_object(draw: Draw) -> tuple[str, str]:
    """The book that Anna bought is new; the boy whom the teacher helps; the bus for which we wait."""
    entries = [entry for entry in governing(PERSON, frozenset({"object"})) if len(entry.complements) == 1]
    verb = Verb(draw.pick(entries))
    wanted = verb.entry.complements[0]
    noun = draw.pick([noun for noun in tagged(wanted.tags) if not noun.tags & {"family", "mass"}]
                     or _people())
    phrase = _antecedent(draw, noun)
    inner = Clause(subject(draw, PERSON), verb, _relative_tense(draw, verb))
    if verb.hides_tense(inner.tense, inner.subject.person):
        inner = Clause(inner.subject, verb, FUTURE)
    is_person = "person" in noun.tags
    opening = words(wanted.english, "whom" if is_person else "which" if wanted.english else "that")
    german = _relative(phrase, wanted.case)
    german = words(wanted.german, german)
    whole = phrase.followed_by(words(opening, inner.english()), words(",", inner.german_verb_last(german), ","))
    return _told_of(draw, noun, whole)


def _relative_tense(draw: Draw, verb: Verb) -> str:
    if "stative" in verb.entry.remarks:
        return draw.pick((PRESENT, PAST))
    return draw.weighted([(2.0, PRESENT), (3.0, PAST), (0.7, "want to"), (0.5, PROGRESSIVE)])


def _told_of(draw: Draw, noun: Noun, whole: Nominal) -> tuple[str, str]:
    """Say something about it: mostly how it is."""
    fitting = [adjective for adjective in adjectives() if adjective.tags & noun.tags]
    if fitting and draw.chance(0.75):
        tense = draw.weighted([(3.0, PRESENT), (1.0, PAST)])
        adjective = draw.pick(fitting)
        degree = ("very", "sehr") if adjective.comparative and draw.chance(0.4) else ("", "")
        clause = Clause(whole, TO_BE, tense, (predicate(adjective, *degree),))
        return sentence(clause.english(), clause.german())
    known = "know" if "person" in noun.tags else "look for"
    part = Part(whole.english_object, whole.in_case("acc"), Field.DEFINITE)
    clause = Clause(draw.someone(), Verb(verb_named(known)), PRESENT, (part,))
    return sentence(clause.english(), clause.german())
