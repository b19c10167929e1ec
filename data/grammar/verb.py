"""Verbs: tenses and persons in both languages, and where the parts of a German verb stand."""

from __future__ import annotations

from dataclasses import dataclass

from grammar.lexicon import EN_VOWELS, VerbEntry, english_plural

PERSONS = ("ich", "du", "er", "wir", "sie")
HAVE = ("habe", "hast", "hat", "haben", "haben")
BE = ("bin", "bist", "ist", "sind", "sind")
WILL = ("werde", "wirst", "wird", "werden", "werden")
# The plain tenses, then the modal verbs by their English name with their German forms.
PRESENT, PROGRESSIVE, PAST, FUTURE = "present", "progressive", "past", "future"
MODALS = {
    "can": ("kann", "kannst", "kann", "können", "können"),
    "must": ("muss", "musst", "muss", "müssen", "müssen"),
    "may": ("darf", "darfst", "darf", "dürfen", "dürfen"),
    "should": ("sollte", "solltest", "sollte", "sollten", "sollten"),
    "want to": ("will", "willst", "will", "wollen", "wollen"),
    "would like to": ("möchte", "möchtest", "möchte", "möchten", "möchten"),
    "could": ("konnte", "konntest", "konnte", "konnten", "konnten"),
    "had to": ("musste", "musstest", "musste", "mussten", "mussten"),
    "wanted to": ("wollte", "wolltest", "wollte", "wollten", "wollten"),
}
PAST_MODALS = ("could", "had to", "wanted to")
IRREGULAR = {  # present tense, all persons
    "sein": BE, "haben": HAVE, "mögen": ("mag", "magst", "mag", "mögen", "mögen"),
    "wissen": ("weiß", "weißt", "weiß", "wissen", "wissen"),
}


@dataclass(frozen=True)
class GermanVerb:
    """A conjugated verb: `finite` in second place and `bracket` at the end, or all at the end."""

    finite: str
    bracket: str
    final: str


@dataclass(frozen=True)
class Verb:
    """An inflected word of the table."""

    entry: VerbEntry

    # --- English ---------------------------------------------------------------------------------------------------
    @property
    def base(self) -> str:
        """The infinitive: read, pick up."""
        return self.entry.english[0]

    def _first_word(self, form: str) -> str:
        """Inflection touches the first word only: picks up."""
        _, space, particle = self.base.partition(" ")
        return form + space + particle

    @property
    def past(self) -> str:
        """The simple past."""
        if len(self.entry.english) > 1:
            return self._first_word(self.entry.english[1])
        stem = self.base.split(" ")[0]
        if stem.endswith("e"):
            return self._first_word(stem + "d")
        if stem.endswith("y") and stem[-2] not in EN_VOWELS:
            return self._first_word(stem[:-1] + "ied")
        return self._first_word(stem + "ed")

    @property
    def third_person(self) -> str:
        """She reads."""
        stem = self.base.split(" ")[0]
        return self._first_word("has" if stem == "have" else english_plural(stem))

    @property
    def ing(self) -> str:
        """Reading."""
        if len(self.entry.english) > 2:
            return self._first_word(self.entry.english[2])
        stem = self.base.split(" ")[0]
        return self._first_word((stem[:-1] if stem.endswith("e") and not stem.endswith("ee") else stem) + "ing")

    def english_group(self, tense: str, person: str, *, do: bool) -> tuple[str, str]:
        """(auxiliary, rest): ("", reads), (does, read) with `do`, (is, reading), (can, read)."""
        is_third = person == "er"
        does = "does" if is_third else "do"
        if self.base == "be" and tense in (PRESENT, PAST):
            return english_be(tense, person), ""
        match tense:
            case "present":
                return (does, self.base) if do else ("", self.third_person if is_third else self.base)
            case "past":
                return ("did", self.base) if do else ("", self.past)
            case "progressive":
                return english_be(PRESENT, person), self.ing
            case "future":
                return "will", self.base
            case "want to":
                wants = "wants" if is_third else "want"
                return (does, f"want to {self.base}") if do else ("", f"{wants} to {self.base}")
            case "had to" | "wanted to":
                plain = {"had to": "have to", "wanted to": "want to"}[tense]
                return ("did", f"{plain} {self.base}") if do else ("", f"{tense} {self.base}")
            case "would like to":
                return "would", f"like to {self.base}"
        return tense, self.base

    def hides_tense(self, tense: str, person: str) -> bool:
        """Whether present and past look alike in English (they put), so that German would have to guess."""
        return tense in (PRESENT, PAST) and self.past == self.base and person != "er"

    # --- German ----------------------------------------------------------------------------------------------------
    @property
    def infinitive(self) -> str:
        """aufmachen."""
        return self.entry.prefix + self.entry.infinitive

    @property
    def zu_infinitive(self) -> str:
        """zu lesen, aufzumachen."""
        if self.entry.prefix:
            return f"{self.entry.prefix}zu{self.entry.infinitive}"
        return f"zu {self.entry.infinitive}"

    @property
    def participle(self) -> str:
        """gelesen, aufgemacht."""
        return self.entry.prefix + self.entry.participle

    def present(self, person: str) -> str:
        """The present tense without its prefix: lese, liest."""
        infinitive, third = self.entry.infinitive, self.entry.third_person
        if infinitive in IRREGULAR:
            return IRREGULAR[infinitive][PERSONS.index(person)]
        stem = infinitive.removesuffix("n").removesuffix("e")
        match person:
            case "ich":
                return (stem.removesuffix("el") + "l" if stem.endswith("el") else stem) + "e"
            case "du":
                without_t = third.removesuffix("t")
                return third if without_t[-1] in "sßzx" else without_t + "st"
            case "er":
                return third
        return infinitive

    def preterite(self, person: str) -> str:
        """war, warst: only of the few verbs that prefer it to the perfect."""
        form = self.entry.remarks["preterite"]
        if person == "du":
            return form + "st"
        if person in ("wir", "sie"):
            return form + ("n" if form.endswith("e") else "en")
        return form

    def imperative(self) -> str:
        """The command to one person, without its prefix: lies, mach, warte."""
        stem = self.entry.infinitive.removesuffix("n").removesuffix("e")
        third = self.entry.third_person.removesuffix("t")
        if set(third) - set(stem) == {"i"} and "e" in stem:     # lesen, liest: the vowel change stays
            return third
        if third.endswith("e") or stem.endswith(("er", "el")):
            return self.present("ich")
        return stem

    def german_group(self, tense: str, person: str) -> GermanVerb:
        """The verb of a clause."""
        index = PERSONS.index(person)
        if tense == PAST and "preterite" in self.entry.remarks:
            return self._split(self.preterite(person))
        if tense == PAST:
            auxiliary = HAVE if self.entry.auxiliary == "hat" else BE
            return _at_the_end(auxiliary[index], self.participle)
        if tense in (PRESENT, PROGRESSIVE):
            return self._split(self.present(person))
        return _at_the_end(WILL[index] if tense == FUTURE else MODALS[tense][index], self.infinitive)

    def _split(self, finite: str) -> GermanVerb:
        """A simple form: its prefix goes to the end of a main clause."""
        return GermanVerb(finite, self.entry.prefix, self.entry.prefix + finite)


def _at_the_end(finite: str, rest: str) -> GermanVerb:
    """A compound form: the finite verb comes last in a subordinate clause."""
    return GermanVerb(finite, rest, f"{rest} {finite}")


def english_be(tense: str, person: str) -> str:
    """Am, are, is, was, were."""
    if tense == PAST:
        return "was" if person in ("ich", "er") else "were"
    return {"ich": "am", "er": "is"}.get(person, "are")


TO_BE = Verb(VerbEntry(
    english=("be", "was"), infinitive="sein", third_person="ist", auxiliary="ist", participle="gewesen", prefix="",
    is_reflexive=False, subjects=frozenset(), complements=(), remarks={"stative": "", "preterite": "war"},
))
