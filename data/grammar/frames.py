"""Filling a verb's frame: a subject, its complements in the cases it governs, and when and where."""

from __future__ import annotations

from collections.abc import Sequence

from grammar import adverbials
from grammar.clause import Clause, Field, Part
from grammar.draw import Draw, governing
from grammar.lexicon import Complement, VerbEntry
from grammar.phrases import BARE, THE, Nominal, after_preposition, noun_phrase
from grammar.things import subject, thing
from grammar.verb import FUTURE, PAST, PAST_MODALS, PRESENT, PROGRESSIVE, Verb

PERSON = frozenset({"person"})
ALL_KINDS = frozenset(["object", "goal", "spot", "seat", "onto", "home", "town", "wall", "instrument"])
MOTION = ("goal", "town")
HANDLING = ("read", "write", "eat", "drink", "peel", "open", "close", "clean", "wash", "repair", "carry", "paint",
            "draw", "unpack", "pack", "cook", "build", "tidy up", "put", "place")     # can be done slowly or with care
NEVER_NEGATED = ("must", "would like to", PROGRESSIVE)
PLACED = frozenset({"room", "sight", "openable", "built"})    # they are where they are: no other place beside them
QUANTIFIED = ("every ", "all ", "many ")
TENSES = ((9.0, PRESENT), (8.0, PAST), (2.0, FUTURE), (2.5, PROGRESSIVE))
WITH_MODALS = (*TENSES, (1.3, "can"), (1.3, "must"), (0.7, "may"), (0.9, "should"), (1.1, "want to"),
               (1.0, "would like to"), (0.7, "could"), (0.8, "had to"), (0.7, "wanted to"))


def draw_tense(draw: Draw, verb: Verb, who: Nominal, choices: Sequence[tuple[float, str]] = WITH_MODALS) -> str:
    """A tense in which the English form leaves no doubt about the German one."""
    if "stative" in verb.entry.remarks:
        choices = TENSES[:2]
    elif "person" not in verb.entry.subjects:
        choices = TENSES
    tense = draw.weighted(choices)
    return FUTURE if verb.hides_tense(tense, who.person) else tense


def complement_part(draw: Draw, wanted: Complement, who: Nominal, entry: VerbEntry, *, negated: bool) -> Part:
    """One complement of a verb in both languages."""
    if wanted.kind != "object":
        english, german = _place_complement(draw, wanted.kind)
        return Part(english, german, Field.PREDICATE)
    is_direct = wanted.case == "acc" and not wanted.german
    pronoun = "nopronoun" not in entry.remarks and not (entry.prefix and wanted.english)
    phrase = thing(draw, wanted.tags, who, negated=negated and is_direct, may_be_pronoun=pronoun)
    while negated and not is_direct and not phrase.is_definite:
        phrase = thing(draw, wanted.tags, who, negated=False, may_be_pronoun=pronoun)
    german = phrase.in_case(wanted.case)
    english = f"{wanted.english} {phrase.english_object}".strip()
    if wanted.german:
        return Part(english, after_preposition(wanted.german, german), Field.PREDICATE)
    if phrase.is_pronoun:
        return Part(english, german, Field.PRONOUN)
    if wanted.case == "dat":
        return Part(english, german, Field.DATIVE)
    return Part(english, german, Field.DEFINITE if phrase.is_definite else Field.INDEFINITE)


def _place_complement(draw: Draw, kind: str) -> tuple[str, str]:
    match kind:
        case "goal":
            return adverbials.goal(draw)
        case "town":
            return adverbials.to_town(draw)
        case "home":
            return adverbials.dwelling(draw)
        case "seat":
            return adverbials.seat(draw)
        case "spot":
            return adverbials.spot(draw, "dat")
        case "onto":
            return adverbials.spot(draw, "acc")
        case "wall":
            wall = noun_phrase(draw.noun("wall"), THE)
            return f"on {wall.english}", f"an {wall.in_case('acc')}"
    instrument = draw.noun("instrument")
    return f"the {instrument.english}", noun_phrase(instrument, BARE).in_case("acc")


def frame(draw: Draw, *, who: Nominal | None = None, verb: Verb | None = None, tense: str | None = None,
          negated: bool | None = None, adverbs: bool = True) -> Clause:
    """A clause; what is not given is drawn. `who` must be a person unless `verb` takes it."""
    if verb is None:
        verb = Verb(draw.pick(governing(PERSON if who else frozenset(PERSON | _other_subjects()), ALL_KINDS)))
    who = who or subject(draw, verb.entry.subjects)
    tense = tense or draw_tense(draw, verb, who)
    if negated is None:
        negated = draw.chance(0.17)
    negated = negated and tense not in NEVER_NEGATED and not who.english.startswith(QUANTIFIED)
    parts = [complement_part(draw, wanted, who, verb.entry, negated=negated) for wanted in verb.entry.complements]
    says_no = any(part.german.startswith("kein") for part in parts)
    if adverbs:
        parts += free_parts(draw, verb, tense, negated=negated)
    return Clause(who, verb, tense, tuple(parts), negated, negated and not says_no)


def _other_subjects() -> frozenset[str]:
    return frozenset(["animal", "dog", "cat", "line", "event", "plane", "upright", "flat", "tool"])


def free_parts(draw: Draw, verb: Verb, tense: str, *, negated: bool) -> list[Part]:
    """Manner, place and time, in English order; seldom all of them."""
    kinds = {wanted.kind for wanted in verb.entry.complements}
    is_action = "stative" not in verb.entry.remarks and "person" in verb.entry.subjects
    parts: list[Part] = []
    if tense == PRESENT and not negated and draw.chance(0.2):
        parts.append(adverbials.frequency(draw) if draw.chance(0.8) else adverbials.NEVER)
    if verb.base in ("drive", "travel") and draw.chance(0.4):
        parts.append(adverbials.by_vehicle(draw))
    elif is_action and not negated and verb.base in HANDLING and draw.chance(0.2):
        parts.append(adverbials.manner(draw))
    is_placed = any(wanted.tags & PLACED for wanted in verb.entry.complements)
    if is_action and not is_placed and kinds <= {"object", "instrument"} and draw.chance(0.33):
        parts.append(adverbials.place(draw))
    takes_time = tense != PROGRESSIVE and not any(part.before_verb for part in parts)
    if takes_time and (is_action or verb.entry.subjects & {"line", "event", "plane"}) and draw.chance(0.42):
        parts.append(adverbials.time(draw, tense))
    return parts


def person_clause(draw: Draw, who: Nominal, *, tense: str | None = None, negated: bool | None = None,
                  adverbs: bool = False) -> Clause:
    """Something that a given person does."""
    verb = Verb(draw.pick(governing(PERSON, ALL_KINDS)))
    if tense is not None:
        while ("stative" in verb.entry.remarks and tense not in (PRESENT, PAST)) or verb.hides_tense(tense, who.person):
            verb = Verb(draw.pick(governing(PERSON, ALL_KINDS)))
    return frame(draw, who=who, verb=verb, tense=tense, negated=negated, adverbs=adverbs)


def is_past(tense: str) -> bool:
    """Whether a clause tells of the past."""
    return tense == PAST or tense in PAST_MODALS
