"""One clause: statements, commands, and what hangs on an infinitive."""

from __future__ import annotations

from dataclasses import replace

from grammar import adverbials
from grammar.clause import Clause, Field, Part, sentence, words
from grammar.draw import Draw, governing, taking, verb_named
from grammar.frames import MOTION, PERSON, QUANTIFIED, frame
from grammar.phrases import SPEAKERS
from grammar.things import subject
from grammar.verb import PAST, PRESENT, Verb

OBJECT_KINDS = frozenset({"object"})
YOU = SPEAKERS[1]
UNWILLED = ("lose", "forget", "fall asleep", "wake up", "arrive")
AIMS = ("buy", "sell", "meet", "visit", "invite", "call", "pick up", "look for", "find", "help", "thank",
        "congratulate", "photograph", "draw", "paint", "repair", "clean", "read", "open", "wash", "listen to", "talk",
        "dance", "show", "bring", "explain", "apologise", "take care", "eat", "write", "translate", "understand",
        "answer", "solve", "learn", "feed", "watch", "look at", "ask", "prepare", "tidy up", "cook", "bake", "close",
        "order", "try")


def statement(draw: Draw) -> tuple[str, str]:
    """The dog sleeps in the garden."""
    clause = frame(draw)
    return sentence(clause.english(), clause.german())


def fronted(draw: Draw) -> tuple[str, str]:
    """Yesterday the man bought a car: the German verb comes before its subject."""
    clause = frame(draw, adverbs=False)
    is_action = "stative" not in clause.verb.entry.remarks
    if draw.chance(0.25) and is_action and not any(part.field is Field.PREDICATE for part in clause.parts):
        return sentence(*clause.fronted(adverbials.place(draw)))
    return sentence(*clause.fronted(adverbials.time(draw, clause.tense)))


def likes_to(draw: Draw) -> tuple[str, str]:
    """She likes to read: sie liest gern."""
    clause = frame(draw, who=subject(draw, PERSON), verb=_action(draw), tense=PRESENT, negated=False, adverbs=False)
    negated = draw.chance(0.25) and not clause.subject.english.startswith(QUANTIFIED)
    german = replace(clause, parts=(*clause.parts, Part("", "gern", Field.MANNER)), german_nicht=negated)
    is_third = clause.subject.person == "er"
    likes = {(True, True): "does not like", (True, False): "do not like", (False, True): "likes",
             (False, False): "like"}[negated, is_third]
    return sentence(words(clause.subject.english, likes, clause.english_infinitive()), german.german())


def _action(draw: Draw) -> Verb:
    entries = governing(PERSON, frozenset({"object", "goal", "instrument"}))
    return Verb(draw.pick([entry for entry in entries
                           if "stative" not in entry.remarks and entry.english[0] not in UNWILLED]))


def command(draw: Draw) -> tuple[str, str]:
    """Close the window, please!"""
    verb = _action(draw)
    while verb.base in ("laugh", "follow", "dream"):
        verb = _action(draw)
    clause = frame(draw, who=YOU, verb=verb, tense=PRESENT, negated=draw.chance(0.2), adverbs=False)
    english = words("do not" if clause.negated else "", verb.base, *(part.english for part in clause.parts))
    german = words(verb.imperative(), clause.middle(), verb.entry.prefix)
    if draw.chance(0.5):
        return sentence(f"please {english}", f"bitte {german}")
    return sentence(english, german, "!")


def purpose(draw: Draw) -> tuple[str, str]:
    """He goes to the bakery to buy bread: um Brot zu kaufen."""
    who = subject(draw, PERSON)
    motion = Verb(draw.pick([entry for entry in governing(PERSON, frozenset(MOTION)) if entry.complements]))
    tense = draw.weighted([(2.0, PRESENT), (2.0, PAST), (1.0, "want to"), (1.0, "must"), (1.0, "had to")])
    clause = frame(draw, who=who, verb=motion, tense=tense, negated=False, adverbs=False)
    aim = _aim(draw, clause)
    return sentence(words(clause.english(), aim.english_infinitive()),
                    words(clause.german(), ", um", aim.german_infinitive()))


def _aim(draw: Draw, clause: Clause) -> Clause:
    aim = Verb(verb_named(draw.pick(AIMS)))
    return frame(draw, who=clause.subject, verb=aim, tense=PRESENT, negated=False, adverbs=False)


def attempt(draw: Draw) -> tuple[str, str]:
    """She tries to open the door: sie versucht, die Tür aufzumachen."""
    verb = Verb(draw.pick(taking("zu")))
    who = subject(draw, PERSON)
    clause = Clause(who, verb, draw.pick((PRESENT, PAST)))
    aim = _aim(draw, clause)
    return sentence(words(clause.english(), aim.english_infinitive()),
                    words(clause.german(), ",", aim.german_infinitive()))
