"""Noun phrases and pronouns: gender, case, number, and the endings of articles and adjectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grammar.lexicon import EN_VOWELS, Adjective, Noun

CASES = ("nom", "acc", "dat", "gen")
# Endings by gender (m, f, n, p for plural) and case, in the order of CASES.
STRONG = {"m": ("er", "en", "em", "en"), "f": ("e", "e", "er", "er"), "n": ("es", "es", "em", "en"),
          "p": ("e", "e", "en", "er")}
WEAK = {"m": ("e", "en", "en", "en"), "f": ("e", "e", "en", "en"), "n": ("e", "e", "en", "en"),
        "p": ("en", "en", "en", "en")}
ARTICLE = {"m": ("der", "den", "dem", "des"), "f": ("die", "die", "der", "der"), "n": ("das", "das", "dem", "des"),
           "p": ("die", "die", "den", "der")}
RELATIVE = {"m": ("der", "den", "dem", "dessen"), "f": ("die", "die", "der", "deren"),
            "n": ("das", "das", "dem", "dessen"), "p": ("die", "die", "denen", "deren")}
CONTRACTED = {"in dem": "im", "in das": "ins", "an dem": "am", "an das": "ans", "von dem": "vom", "zu dem": "zum",
              "zu der": "zur", "bei dem": "beim"}


@dataclass(frozen=True)
class Determiner:
    """What opens a noun phrase; `declension` says how it and the adjective behind it are inflected."""

    english: str
    english_plural: str
    german: str
    declension: str             # article, der-word (dieser), ein-word (mein), adjective (viele), fixed (drei)


THE = Determiner("the", "the", "", "article")
A = Determiner("a", "", "ein", "ein-word")
THIS = Determiner("this", "these", "dies", "der-word")
EVERY = Determiner("every", "", "jed", "der-word")
ALL = Determiner("", "all", "all", "der-word")
WHICH = Determiner("which", "which", "welch", "der-word")
NO = Determiner("a", "any", "kein", "ein-word")         # English has its "not" at the verb
NOT_ANY = Determiner("any", "any", "kein", "ein-word")
MANY = Determiner("", "many", "viel", "adjective")
BARE = Determiner("", "", "", "fixed")


def fixed(english: str, german: str) -> Determiner:
    """A determiner without endings, such as a number or Anna's; an adjective after it is strong."""
    return Determiner(english, english, german, "fixed")


@dataclass(frozen=True)
class Nominal:
    """A phrase that can be subject or object, in both languages and all cases."""

    english: str
    english_object: str
    german: tuple[str, str, str, str]       # in the order of CASES
    person: str                             # the German verb form it asks for: ich, du, er, wir, sie
    gender: str                             # m, f, n, or p in the plural
    pronoun: str                            # the English pronoun that takes it up
    is_definite: bool = True
    is_pronoun: bool = False

    def in_case(self, case: str) -> str:
        """The German form."""
        return self.german[CASES.index(case)]

    def followed_by(self, english: str, german: str) -> Nominal:
        """The same phrase with something behind it, such as a genitive or a relative clause."""
        return replace(self, english=f"{self.english} {english}", english_object=f"{self.english_object} {english}",
                       german=tuple(f"{form} {german}" for form in self.german))

    def joined(self, other: Nominal) -> Nominal:
        """Both together: a plural."""
        return Nominal(
            english=f"{self.english} and {other.english}",
            english_object=f"{self.english_object} and {other.english_object}",
            german=tuple(f"{one} und {two}" for one, two in zip(self.german, other.german, strict=True)),
            person="sie", gender="p", pronoun="they",
        )


def determiner_form(determiner: Determiner, gender: str, case: str) -> tuple[str, bool]:
    """The German determiner, and whether it shows the case, so that the adjective need not."""
    index = CASES.index(case)
    if determiner.declension == "article":
        return ARTICLE[gender][index], True
    if determiner.declension == "fixed":
        return determiner.german, False
    ending = STRONG[gender][index]
    if case == "gen" and gender in "mn" and determiner.declension != "adjective":
        ending = "es"
    if determiner.declension == "ein-word" and ((gender in "mn" and case == "nom") or (gender, case) == ("n", "acc")):
        ending = ""
    return determiner.german + ending, ending != "" and determiner.declension != "adjective"


def with_article(word: str, rest: str) -> str:
    """Put "a" or "an" before a word."""
    article = "an" if rest[0].lower() in EN_VOWELS and not rest.startswith("uni") else "a"
    return f"{article if word == 'a' else word} {rest}".strip()


def noun_phrase(noun: Noun, determiner: Determiner, adjectives: Sequence[tuple[str, str]] = (), *,
                plural: bool = False) -> Nominal:
    """Build a noun phrase; an adjective is a pair (English word, German stem)."""
    gender = "p" if plural else noun.gender
    rest = " ".join([*(english for english, _ in adjectives), noun.plural if plural else noun.english])
    english = with_article(determiner.english_plural if plural else determiner.english, rest)
    forms = []
    for index, case in enumerate(CASES):
        opening, shows_case = determiner_form(determiner, gender, case)
        ending = (WEAK if shows_case else STRONG)[gender][index]
        words = [opening, *(stem + ending for _, stem in adjectives), noun.decline(case, plural=plural)]
        forms.append(" ".join(word for word in words if word))
    return Nominal(
        english=english, english_object=english, german=tuple(forms), person="sie" if plural else "er", gender=gender,
        pronoun="they" if plural else english_pronoun(noun),
        is_definite=determiner.declension in ("article", "der-word") or determiner.german[:4] in POSSESSIVE_STEMS
        or determiner.english.endswith("'s"),
    )


def english_pronoun(noun: Noun) -> str:
    """he, she or it: by sex for people, "it" for a child and everything else."""
    if "person" not in noun.tags or noun.english == "child":
        return "it"
    return "she" if noun.gender == "f" or "female" in noun.tags else "he"


def _pronoun(english: str, english_object: str, german: str, person: str, gender: str) -> Nominal:
    """A personal pronoun from its forms, "ich mich mir"."""
    nominative, accusative, dative = german.split()
    return Nominal(english=english, english_object=english_object, german=(nominative, accusative, dative, ""),
                   person=person, gender=gender, pronoun=english, is_pronoun=True)


SPEAKERS = (_pronoun("I", "me", "ich mich mir", "ich", "m"), _pronoun("you", "you", "du dich dir", "du", "m"),
            _pronoun("we", "us", "wir uns uns", "wir", "p"))
THIRD_PERSON = {"m": "er ihn ihm", "f": "sie sie ihr", "n": "es es ihm", "p": "sie sie ihnen"}
ENGLISH_OBJECT = {"he": "him", "she": "her", "it": "it", "they": "them"}
REFLEXIVE = {"ich": "mich", "du": "dich", "er": "sich", "wir": "uns", "sie": "sich"}
ENGLISH_POSSESSIVE = {"I": "my", "you": "your", "he": "his", "she": "her", "it": "its", "we": "our", "they": "their"}
POSSESSIVE_STEMS = ("mein", "dein", "sein", "ihr", "unse")


def taken_up(nominal: Nominal) -> Nominal:
    """The pronoun that refers to a phrase: German agrees with its gender, where English may say "it"."""
    if nominal.person in ("ich", "du", "wir"):
        return next(speaker for speaker in SPEAKERS if speaker.person == nominal.person)
    person = "sie" if nominal.gender == "p" else "er"
    return _pronoun(nominal.pronoun, ENGLISH_OBJECT[nominal.pronoun], THIRD_PERSON[nominal.gender], person,
                    nominal.gender)


HE = _pronoun("he", "him", THIRD_PERSON["m"], "er", "m")
SHE = _pronoun("she", "her", THIRD_PERSON["f"], "er", "f")
THEY = _pronoun("they", "them", THIRD_PERSON["p"], "sie", "p")
IT = _pronoun("it", "it", THIRD_PERSON["n"], "er", "n")


def possessive(owner: Nominal) -> Determiner:
    """my, your, his ... of an owner."""
    speakers = {"ich": "mein", "du": "dein", "wir": "unser"}
    others = {"m": "sein", "n": "sein", "f": "ihr", "p": "ihr"}
    stem = speakers[owner.person] if owner.person in speakers else others[owner.gender]
    english = ENGLISH_POSSESSIVE[owner.pronoun]
    return Determiner(english, english, stem, "ein-word")


def name(english: str, german: str, pronoun: str) -> Nominal:
    """A person's or a town's name."""
    gender = {"he": "m", "she": "f", "it": "n"}[pronoun]
    return Nominal(english=english, english_object=english, german=(german, german, german, german + "s"),
                   person="er", gender=gender, pronoun=pronoun)


def after_preposition(preposition: str, phrase: str) -> str:
    """Join a German preposition to its phrase: in dem -> im, zu der -> zur."""
    article, _, rest = phrase.partition(" ")
    contracted = CONTRACTED.get(f"{preposition} {article}")
    return f"{contracted} {rest}" if contracted and rest else f"{preposition} {phrase}"


def adjective_pair(adjective: Adjective, *, comparative: bool = False) -> tuple[str, str]:
    """(English word, German stem) of an adjective before a noun."""
    if comparative:
        return adjective.comparative, adjective.german_comparative
    return adjective.english, adjective.stem
