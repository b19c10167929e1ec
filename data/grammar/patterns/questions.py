"""Questions, direct and indirect."""

from __future__ import annotations

from grammar.clause import Clause, sentence, words
from grammar.draw import NAMES, Draw, governing, of_one_object, tagged, taking, verb_named
from grammar.frames import ALL_KINDS, MOTION, PERSON, frame, person_clause
from grammar.phrases import HE, SHE, SPEAKERS, THE, THEY, WHICH, Nominal, name, noun_phrase
from grammar.things import some_adjectives, subject
from grammar.verb import FUTURE, PAST, PRESENT, TO_BE, Verb

TENSES = ((4.0, PRESENT), (4.0, PAST), (1.0, FUTURE), (1.0, "can"), (1.0, "want to"), (0.7, "must"))
SIMPLE_TENSES = ((4.0, PRESENT), (4.0, PAST), (1.0, FUTURE))
WHY, WHEN = ("why", "warum"), ("when", "wann")
WHO = name("who", "wer", "he")


def _asked(draw: Draw) -> Nominal:
    """Whom one asks about: often "you"."""
    if draw.chance(0.35):
        return SPEAKERS[1]
    if draw.chance(0.4):
        return draw.pick((*NAMES, HE, SHE, THEY))
    return subject(draw, PERSON)


def _tense(draw: Draw, verb: Verb) -> str:
    return draw.weighted(TENSES[:2] if "stative" in verb.entry.remarks else TENSES)


def yes_or_no(draw: Draw) -> tuple[str, str]:
    """Does the woman read the newspaper? Liest die Frau die Zeitung?"""
    verb = Verb(draw.pick(governing(PERSON, ALL_KINDS)))
    clause = frame(draw, who=_asked(draw), verb=verb, tense=_tense(draw, verb), negated=False)
    return sentence(clause.english_question(), clause.german_verb_first(), "?")


def with_question_word(draw: Draw) -> tuple[str, str]:
    """Why, when, where and where to; what and whom."""
    kind = draw.pick(("why", "why", "when", "where", "where to", "object", "object", "object"))
    if kind == "where to":
        verb = Verb(draw.pick([entry for entry in governing(PERSON, frozenset(MOTION)) if entry.complements]))
        return _asking(Clause(_asked(draw), verb, _tense(draw, verb)), "where", "wohin")
    if kind == "object":
        return _object_question(draw)
    verb = Verb(draw.pick([entry for entry in governing(PERSON, frozenset({"object"}))
                           if "stative" not in entry.remarks]))
    clause = frame(draw, who=_asked(draw), verb=verb, tense=_tense(draw, verb), adverbs=False,
                   negated=kind == "why" and draw.chance(0.25))
    english, german = {"why": WHY, "when": WHEN, "where": ("where", "wo")}[kind]
    return _asking(clause, english, german)


def _asking(clause: Clause, english: str, german: str) -> tuple[str, str]:
    return sentence(clause.english_question(english), clause.german_verb_first(german), "?")


def _object_question(draw: Draw) -> tuple[str, str]:
    """What does she read? Whom do you help? Wem hilfst du?"""
    verb = Verb(draw.pick(of_one_object(PERSON)))
    wanted = verb.entry.complements[0]
    only_person = wanted.case == "dat" or wanted.tags == PERSON or "stative" in verb.entry.remarks
    is_person = "person" in wanted.tags and (only_person or draw.chance(0.5))
    german = {"acc": "wen", "dat": "wem"}[wanted.case] if is_person else "was"
    clause = Clause(_asked(draw), verb, _tense(draw, verb))
    return _asking(clause, "whom" if is_person else "what", german)


def subject_question(draw: Draw) -> tuple[str, str]:
    """Who has bought the bread? The order does not change."""
    clause = frame(draw, who=WHO, tense=draw.weighted(SIMPLE_TENSES[:2]), negated=False)
    return sentence(clause.english(), clause.german(), "?")


def which(draw: Draw) -> tuple[str, str]:
    """Which book do you read? Welches Buch liest du?"""
    verb = Verb(draw.pick(of_one_object(PERSON)))
    wanted = verb.entry.complements[0]
    nouns = [noun for noun in tagged(wanted.tags) if not noun.tags & {"family", "language"}]
    if not nouns:
        return which(draw)
    noun = draw.pick(nouns)
    phrase = noun_phrase(noun, WHICH, some_adjectives(draw, noun, 0.25), plural=noun.plural != "" and draw.chance(0.25))
    clause = Clause(_asked(draw), verb, _tense(draw, verb))
    return _asking(clause, phrase.english_object, phrase.in_case(wanted.case))


def indirect(draw: Draw) -> tuple[str, str]:
    """I do not know where he lives: ich weiß nicht, wo er wohnt. He asks whether she is tired: ob sie müde ist."""
    if draw.chance(0.5):
        asking = Clause(subject(draw, PERSON), Verb(verb_named("know", "that")), draw.pick((PRESENT, PAST)),
                        negated=True, german_nicht=True)
    else:
        asking = Clause(subject(draw, PERSON), Verb(draw.pick(taking("whether"))), draw.pick((PRESENT, PAST)))
    english, german, asked = _indirectly(draw)
    return sentence(words(asking.english(), english, asked.english()),
                    words(asking.german(), ",", asked.german_verb_last(german)))


def _indirectly(draw: Draw) -> tuple[str, str, Clause]:
    kind = draw.pick(("whether", "whether", "why", "when", "where", "where to"))
    who = subject(draw, PERSON)
    if kind == "where to":
        verb = Verb(draw.pick([entry for entry in governing(PERSON, frozenset(MOTION)) if entry.complements]))
        return "where", "wohin", Clause(who, verb, draw.pick((PRESENT, PAST)))
    if kind == "where" and draw.chance(0.6):
        noun = draw.noun("tool", "clothing", "text", "building", "pet")
        phrase = noun_phrase(noun, THE, plural=draw.chance(0.25))
        return "where", "wo", Clause(phrase, TO_BE, draw.pick((PRESENT, PAST)))
    clause = person_clause(draw, who, negated=False, tense=draw.weighted(SIMPLE_TENSES))
    if kind == "where":
        verb = Verb(draw.pick([entry for entry in governing(PERSON, frozenset({"object"}))
                               if "stative" not in entry.remarks and entry.complements]))
        clause = frame(draw, who=who, verb=verb, negated=False, adverbs=False)
    english, german = {"whether": ("whether", "ob"), "why": WHY, "when": WHEN, "where": ("where", "wo")}[kind]
    return english, german, clause
