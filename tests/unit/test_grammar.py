"""The grammar behind the embedded corpus, against German written by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "data"))

from grammar.clause import Clause, Field, Part, sentence
from grammar.draw import nouns, verb_named, verbs
from grammar.lexicon import Noun, adjectives, english_comparative, english_plural
from grammar.numbers import cardinal, clock, ordinal
from grammar.phrases import (
    ALL,
    BARE,
    CASES,
    HE,
    MANY,
    NO,
    RELATIVE,
    SHE,
    SPEAKERS,
    THE,
    THIS,
    A,
    Determiner,
    Nominal,
    adjective_pair,
    after_preposition,
    fixed,
    name,
    noun_phrase,
    possessive,
    taken_up,
)
from grammar.verb import FUTURE, PAST, PERSONS, PRESENT, PROGRESSIVE, TO_BE, Verb

ICH, YOU, WE = SPEAKERS
ANNA = name("Anna", "Anna", "she")


def noun(english: str) -> Noun:
    return next(noun for noun in nouns() if noun.english == english)


def verb(english: str, kind: str = "object") -> Verb:
    if kind == "":
        return Verb(next(entry for entry in verbs() if entry.english[0] == english and not entry.complements))
    return Verb(verb_named(english, kind))


def phrase(english: str, determiner: Determiner = THE, *words: str, plural: bool = False) -> Nominal:
    pairs = [adjective_pair(adjective) for word in words for adjective in adjectives() if adjective.english == word]
    return noun_phrase(noun(english), determiner, pairs, plural=plural)


def thing(nominal: Nominal, case: str = "acc") -> Part:
    field = Field.PRONOUN if nominal.is_pronoun else Field.DEFINITE if nominal.is_definite else Field.INDEFINITE
    if case == "dat" and not nominal.is_pronoun:
        field = Field.DATIVE
    return Part(nominal.english_object, nominal.in_case(case), field)


def test_the_lexicon_is_not_a_toy():
    assert len(nouns()) >= 150
    assert len(verbs()) >= 80
    assert len(adjectives()) >= 60
    known = {tag for noun in nouns() for tag in noun.tags}
    unknown = {tag for adjective in adjectives() for tag in adjective.tags} - known - {"state", "colour"}
    assert unknown == set()
    wanted_tags = {tag for entry in verbs() for wanted in entry.complements for tag in wanted.tags}
    assert wanted_tags - known == set()


# --- noun phrases ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("built", "forms"),
    [
        (phrase("man", THE, "old"), "der alte Mann, den alten Mann, dem alten Mann, des alten Mannes"),
        (phrase("man", A, "old"), "ein alter Mann, einen alten Mann, einem alten Mann, eines alten Mannes"),
        (phrase("woman", A, "young"), "eine junge Frau, eine junge Frau, einer jungen Frau, einer jungen Frau"),
        (phrase("woman", THE, "young"), "die junge Frau, die junge Frau, der jungen Frau, der jungen Frau"),
        (phrase("child", A, "small"), "ein kleines Kind, ein kleines Kind, einem kleinen Kind, eines kleinen Kindes"),
        (phrase("child", THE, "small"), "das kleine Kind, das kleine Kind, dem kleinen Kind, des kleinen Kindes"),
        (phrase("child", THE, plural=True), "die Kinder, die Kinder, den Kindern, der Kinder"),
        (phrase("boy", THIS), "dieser Junge, diesen Jungen, diesem Jungen, dieses Jungen"),
        (
            phrase("student", THE, "tired"),
            "der müde Student, den müden Studenten, dem müden Studenten, des müden Studenten",
        ),
        (phrase("neighbour", possessive(WE)), "unser Nachbar, unseren Nachbarn, unserem Nachbarn, unseres Nachbarn"),
        (
            phrase("coat", possessive(SHE), "expensive"),
            "ihr teurer Mantel, ihren teuren Mantel, ihrem teuren Mantel, ihres teuren Mantels",
        ),
        (phrase("book", NO), "kein Buch, kein Buch, keinem Buch, keines Buches"),
        (
            phrase("apple", fixed("three", "drei"), "red", plural=True),
            "drei rote Äpfel, drei rote Äpfel, drei roten Äpfeln, drei roter Äpfel",
        ),
        (
            phrase("tower", MANY, "high", plural=True),
            "viele hohe Türme, viele hohe Türme, vielen hohen Türmen, vieler hoher Türme",
        ),
        (
            phrase("tower", ALL, "high", plural=True),
            "alle hohen Türme, alle hohen Türme, allen hohen Türmen, aller hohen Türme",
        ),
        (phrase("coffee", BARE, "hot"), "heißer Kaffee, heißen Kaffee, heißem Kaffee, heißen Kaffees"),
        (phrase("milk", BARE, "cold"), "kalte Milch, kalte Milch, kalter Milch, kalter Milch"),
        (phrase("water", BARE, "cold"), "kaltes Wasser, kaltes Wasser, kaltem Wasser, kalten Wassers"),
        (
            phrase("car", fixed("Anna's", "Annas"), "new"),
            "Annas neues Auto, Annas neues Auto, Annas neuem Auto, Annas neuen Autos",
        ),
        (phrase("room", THE, "dark"), "das dunkle Zimmer, das dunkle Zimmer, dem dunklen Zimmer, des dunklen Zimmers"),
        (phrase("car", THE, plural=True), "die Autos, die Autos, den Autos, der Autos"),
    ],
)
def test_noun_phrases_in_all_cases(built, forms):
    assert ", ".join(built.german) == forms


def test_english_chooses_a_or_an():
    assert phrase("apple", A).english == "an apple"
    assert phrase("apple", A, "red").english == "a red apple"
    assert phrase("university", A).english == "a university"


def test_prepositions_join_their_article():
    assert after_preposition("in", phrase("garden").in_case("dat")) == "im Garten"
    assert after_preposition("in", phrase("kitchen").in_case("acc")) == "in die Küche"
    assert after_preposition("zu", phrase("university").in_case("dat")) == "zur Universität"
    assert after_preposition("auf", phrase("market").in_case("dat")) == "auf dem Markt"
    assert after_preposition("in", RELATIVE["n"][CASES.index("dat")]) == "in dem"


def test_a_pronoun_agrees_with_what_it_takes_up():
    assert [taken_up(phrase(word)).in_case("acc") for word in ("lamp", "table", "book")] == ["sie", "ihn", "es"]
    assert {taken_up(phrase(word)).english for word in ("lamp", "table", "book")} == {"it"}
    assert taken_up(phrase("girl")).english == "she"
    assert taken_up(phrase("girl")).in_case("nom") == "es"
    assert taken_up(phrase("table", plural=True)).in_case("dat") == "ihnen"


# --- verbs -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("word", "kind", "forms"),
    [
        ("read", "object", "lese liest liest lesen lesen"),
        ("wait", "object", "warte wartest wartet warten warten"),
        ("drive", "goal", "fahre fährst fährt fahren fahren"),
        ("eat", "object", "esse isst isst essen essen"),
        ("smile", "", "lächle lächelst lächelt lächeln lächeln"),
        ("feed", "object", "füttere fütterst füttert füttern füttern"),
        ("invite", "object", "lade lädst lädt laden laden"),
        ("know", "that", "weiß weißt weiß wissen wissen"),
        ("like", "object", "mag magst mag mögen mögen"),
        ("have", "object", "habe hast hat haben haben"),
        ("travel", "town", "reise reist reist reisen reisen"),
        ("sit", "seat", "sitze sitzt sitzt sitzen sitzen"),
        ("dance", "", "tanze tanzt tanzt tanzen tanzen"),
        ("close", "object", "mache machst macht machen machen"),
        ("ask", "object", "frage fragst fragt fragen fragen"),
    ],
)
def test_the_present_tense(word, kind, forms):
    assert " ".join(verb(word, kind).present(person) for person in PERSONS) == forms


def test_separable_verbs_and_commands():
    assert verb("open").participle == "aufgemacht"
    assert verb("open").zu_infinitive == "aufzumachen"
    assert verb("understand").participle == "verstanden"
    commands = {
        "read": "lies",
        "eat": "iss",
        "wait": "warte",
        "wash": "wasch",
        "help": "hilf",
        "give": "gib",
        "feed": "füttere",
        "take off": "zieh",
        "answer": "beantworte",
        "throw away": "wirf",
        "forget": "vergiss",
        "send": "schick",
    }
    for english, german in commands.items():
        assert verb(english).imperative() == german


@pytest.mark.parametrize(
    ("english", "forms"),
    [
        ("read", "reads read reading"),
        ("pick up", "picks up picked up picking up"),
        ("carry", "carries carried carrying"),
        ("watch", "watches watched watching"),
        ("have", "has had having"),
        ("bite", "bites bit biting"),
        ("pay for", "pays for paid for paying for"),
        ("put on", "puts on put on putting on"),
        ("see", "sees saw seeing"),
    ],
)
def test_english_verbs(english, forms):
    found = verb(english)
    assert f"{found.third_person} {found.past} {found.ing}" == forms


def test_english_endings():
    assert [english_plural(word) for word in ("box", "party", "boy", "piano", "bus")] == [
        "boxes",
        "parties",
        "boys",
        "pianos",
        "buses",
    ]
    assert [english_comparative(word) for word in ("old", "nice", "happy", "expensive", "polite", "clever")] == [
        "older",
        "nicer",
        "happier",
        "more expensive",
        "more polite",
        "more clever",
    ]


# --- the order of words ----------------------------------------------------------------------------
WINDOW = phrase("window")
YESTERDAY = Part("yesterday", "gestern", Field.TIME)
TIRED = Part("tired", "müde", Field.PREDICATE)


def test_separable_prefix_and_participle_stand_at_the_end():
    clause = Clause(phrase("woman"), verb("open"), PRESENT, (thing(WINDOW),))
    assert sentence(clause.english(), clause.german()) == (
        "The woman opens the window.",
        "Die Frau macht das Fenster auf.",
    )
    clause = Clause(phrase("woman"), verb("open"), PAST, (thing(WINDOW), YESTERDAY))
    assert sentence(clause.english(), clause.german()) == (
        "The woman opened the window yesterday.",
        "Die Frau hat gestern das Fenster aufgemacht.",
    )


def test_haben_or_sein():
    assert (
        Clause(WE, verb("travel", "town"), PAST, (Part("to Rome", "nach Rom", Field.PREDICATE),)).german()
        == "wir sind nach Rom gereist"
    )
    assert Clause(WE, verb("sleep", ""), PAST).german() == "wir haben geschlafen"
    assert Clause(WE, TO_BE, PAST, (TIRED,)).german() == "wir waren müde"


def test_the_verb_comes_second():
    clause = Clause(phrase("man"), verb("buy"), PAST, (thing(phrase("car", A)),))
    assert sentence(*clause.fronted(YESTERDAY)) == (
        "Yesterday the man bought a car.",
        "Gestern hat der Mann ein Auto gekauft.",
    )


def test_the_verb_comes_last():
    clause = Clause(phrase("man"), verb("call"), PRESENT, (thing(ANNA),))
    assert clause.german_verb_last("weil") == "weil der Mann Anna anruft"
    clause = Clause(phrase("man"), verb("call"), "want to", (thing(ANNA),))
    assert clause.german_verb_last("dass") == "dass der Mann Anna anrufen will"
    clause = Clause(phrase("man"), verb("call"), PAST, (thing(ANNA),))
    assert clause.german_verb_last("dass") == "dass der Mann Anna angerufen hat"


def test_questions():
    clause = Clause(YOU, verb("buy"), PAST, (thing(phrase("bread")),))
    assert sentence(clause.english_question(), clause.german_verb_first(), "?") == (
        "Did you buy the bread?",
        "Hast du das Brot gekauft?",
    )
    clause = Clause(phrase("child"), verb("open"), PRESENT, (thing(WINDOW),))
    assert sentence(clause.english_question("why"), clause.german_verb_first("warum"), "?") == (
        "Why does the child open the window?",
        "Warum macht das Kind das Fenster auf?",
    )
    clause = Clause(HE, TO_BE, PRESENT, (TIRED,))
    assert clause.english_question() == "is he tired"


def test_where_not_stands():
    def negated(*parts: Part, word: str = "read", kind: str = "object", tense: str = PRESENT) -> Clause:
        return Clause(ICH, verb(word, kind), tense, parts, negated=True, german_nicht=True)

    in_the_garden = Part("in the garden", "im Garten", Field.PLACE)
    assert negated(thing(phrase("book"))).english() == "I do not read the book"
    assert negated(thing(phrase("book"))).german() == "ich lese das Buch nicht"
    assert negated(thing(phrase("book")), in_the_garden).german() == "ich lese das Buch nicht im Garten"
    assert negated(thing(WINDOW), word="open", tense=PAST).german() == "ich habe das Fenster nicht aufgemacht"
    assert negated(Part("for Anna", "auf Anna", Field.PREDICATE), word="wait").german() == "ich warte nicht auf Anna"
    kein = Clause(ICH, verb("have"), PRESENT, (thing(phrase("dog", NO)),), negated=True)
    assert (kein.english(), kein.german()) == ("I do not have a dog", "ich habe keinen Hund")


def test_objects_are_ordered_by_case_and_pronouns_come_first():
    gives = verb("give")
    clause = Clause(
        phrase("teacher"), gives, PAST, (thing(phrase("child"), "dat"), thing(phrase("book", A)), YESTERDAY)
    )
    assert clause.english() == "the teacher gave the child a book yesterday"
    assert clause.german() == "der Lehrer hat gestern dem Kind ein Buch gegeben"
    clause = Clause(phrase("teacher"), gives, PRESENT, (thing(ICH, "dat"), thing(phrase("book", A)), YESTERDAY))
    assert clause.german() == "der Lehrer gibt mir gestern ein Buch"


def test_reflexive_verbs_and_the_english_ing_form():
    assert Clause(WE, verb("rest", ""), PAST).german() == "wir haben uns ausgeruht"
    assert Clause(WE, verb("rest", ""), PRESENT).german_verb_last("weil") == "weil wir uns ausruhen"
    clause = Clause(SHE, verb("read"), PROGRESSIVE, (thing(phrase("letter", A)),))
    assert (clause.english(), clause.german()) == ("she is reading a letter", "sie liest gerade einen Brief")


def test_modal_verbs_and_the_future():
    clause = Clause(HE, verb("sell"), FUTURE, (thing(phrase("car")),))
    assert (clause.english(), clause.german()) == ("he will sell the car", "er wird das Auto verkaufen")
    clause = Clause(HE, verb("sell"), "had to", (thing(phrase("car")),), negated=True, german_nicht=True)
    assert clause.english() == "he did not have to sell the car"
    assert clause.german() == "er musste das Auto nicht verkaufen"
    assert sentence(Clause(ICH, verb("sleep", ""), "can", negated=True).english(), "")[0] == "I cannot sleep."


def test_relative_clauses_are_closed_by_commas():
    sells = Clause(phrase("woman"), verb("sell"), PRESENT, (thing(phrase("flower", BARE, plural=True)),))
    who = phrase("woman").followed_by(
        f"who {sells.english(without_subject=True)}", f", {sells.german_verb_last('die', without_subject=True)},"
    )
    clause = Clause(who, TO_BE, PRESENT, (TIRED,))
    assert sentence(clause.english(), clause.german()) == (
        "The woman who sells flowers is tired.",
        "Die Frau, die Blumen verkauft, ist müde.",
    )
    knows = Clause(ICH, verb("know"), PRESENT, (thing(who),))
    assert sentence(knows.english(), knows.german())[1] == "Ich kenne die Frau, die Blumen verkauft."


# --- numbers ---------------------------------------------------------------------------------------
def test_numbers():
    assert cardinal(21) == ("twenty-one", "einundzwanzig")
    assert cardinal(30) == ("thirty", "dreißig")
    assert cardinal(67) == ("sixty-seven", "siebenundsechzig")
    assert cardinal(16)[1] == "sechzehn"
    assert cardinal(345) == ("three hundred and forty-five", "dreihundertfünfundvierzig")
    assert [ordinal(number)[1] for number in (1, 3, 7, 8, 19, 20)] == [
        "ersten",
        "dritten",
        "siebten",
        "achten",
        "neunzehnten",
        "zwanzigsten",
    ]


def test_times_of_day():
    assert clock(7, 2) == ("half past seven", "halb acht")
    assert clock(12, 2) == ("half past twelve", "halb eins")
    assert clock(1, 0) == ("one o'clock", "ein Uhr")
    assert clock(1, 1) == ("a quarter past one", "Viertel nach eins")
    assert clock(8, 3) == ("a quarter to nine", "Viertel vor neun")
