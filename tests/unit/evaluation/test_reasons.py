"""Reasons for differences: systems that a script has harmed are named by their class, also on the first screen."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.evaluation.reasons import (
    WordComparison,
    changed_lines,
    error_differences,
    marked,
    ngram_differences,
)
from mtkit.evaluation.tokenizer_choice import choose_tokenizer
from mtkit.evaluation.word_errors import ERROR_CLASSES, ErrorClassifier, WordError, are_forms

DATA = Path(__file__).resolve().parents[3] / "data"
NAMES = ("Paul", "Oliver", "Stefan", "Anna", "Maria", "Peter", "Julia", "Thomas", "Tom", "Lena", "Felix", "Emma")
ARTICLES = ("der", "die", "das", "den", "dem", "des", "ein", "eine", "einen", "einem", "einer")
TOKENIZER = choose_tokenizer([], "de")


def texts() -> tuple[list[str], list[str]]:
    """Source and reference of the embedded test set; every fourth line has a number."""
    pairs = zip(*((DATA / f"test.{side}").read_text().split("\n")[:-1] for side in ("en", "de")), strict=True)
    src, ref = [], []
    for number, (one, other) in enumerate(pairs):
        is_numbered = number % 4 == 0 and one.endswith(".") and other.endswith(".")
        src.append(f"{one[:-1]}, on page {number + 17}." if is_numbered else one)
        ref.append(f"{other[:-1]}, auf Seite {number + 17}." if is_numbered else other)
    return src, ref


def by_word(change: Callable[[str, random.Random], str]) -> Callable[[str, str, random.Random], str]:
    return lambda ref, src, rng: " ".join(change(word, rng) for word in ref.split())


def exchanged(ref: str, src: str, rng: random.Random) -> str:
    words = ref.split()
    if len(words) > 4:
        at = rng.randrange(1, len(words) - 3)
        words[at], words[at + 2] = words[at + 2], words[at]
    return " ".join(words)


def repeated(ref: str, src: str, rng: random.Random) -> str:
    words = ref.split()
    at = rng.randrange(len(words) - 1)
    return " ".join([*words[: at + 1], words[at], *words[at + 1 :]])


# harm, its class, and the share of the lines that it is done to
HARMS: dict[str, tuple[str, Callable[[str, str, random.Random], str]]] = {
    "numbers": ("number", by_word(lambda w, rng: f"{rng.randrange(900)}." if w[:-1].isdigit() else w)),
    "clauses": ("cut", lambda ref, src, rng: f"{ref.partition(',')[0]}." if "," in ref else ref),
    "articles": ("function", by_word(lambda w, rng: rng.choice(ARTICLES) if w in ARTICLES else w)),
    "names": ("name", by_word(lambda w, rng: rng.choice(NAMES) if w in NAMES else w)),
    "repetition": ("repeated", repeated),
    "negation": ("missing", by_word(lambda w, rng: "" if w == "nicht" else w)),
    "order": ("order", exchanged),
    "copies": ("source", lambda ref, src, rng: src if rng.random() < 0.3 else ref),
    "capitals": ("capitals", lambda ref, src, rng: ref.lower()),
    "endings": ("form", by_word(lambda w, rng: w[:-1] if w.isalpha() and len(w) > 3 else w)),
}


@pytest.fixture(scope="module")
def comparison() -> WordComparison:
    src, ref = texts()
    return WordComparison(TOKENIZER, ref, src)


def system(rng: random.Random, ref: list[str]) -> list[str]:
    """A system with errors of its own: one word in fifty is another one of the text."""
    vocabulary = sorted({word for line in ref for word in line.split()})
    lines = ([rng.choice(vocabulary) if rng.random() < 0.02 else word for word in line.split()] for line in ref)
    return [" ".join(line) for line in lines]


@pytest.mark.parametrize("harm", HARMS)
def test_harm_is_named_by_its_class(harm: str, comparison: WordComparison) -> None:
    src, ref = texts()
    kind, change = HARMS[harm]
    rng = random.Random(harm)
    first = system(rng, ref)
    other = [" ".join(change(hyp, line, rng).split()) for hyp, line in zip(first, src, strict=True)]
    reasons = comparison.compare(("first", "other"), (comparison.read(first), comparison.read(other)), [])
    (worst,) = [each for each in reasons.summary() if each.startswith("  more errors in other: ")]
    assert worst.startswith(f"  more errors in other: {ERROR_CLASSES[kind]} ")
    assert len(reasons.summary()) < 12
    if harm == "negation":
        count = sum(line.split().count("nicht") for line in first)
        assert reasons.summary()[1] == f"  right in first alone: nicht ({count} against 0)"
        assert f"(nicht ×{count}" in worst


def test_equal_systems_have_no_reasons(comparison: WordComparison) -> None:
    _, ref = texts()
    reasons = comparison.compare(("one", "other"), (comparison.read(ref), comparison.read(ref)), [])
    assert reasons.summary()[1:] == ["  no word and no class of errors differs clearly"]
    assert [*reasons.ngrams, *reasons.errors] == []
    assert {group.first for group in reasons.words} == {100.0}


def kinds(hyp: str, ref: str, src: str = "") -> list[str]:
    """Classes of the errors of a line among others, which say which words are small."""
    refs = [ref.split(), *(["der", "die", "Mann", ",", "."] for _ in range(50))]
    (errors,) = ErrorClassifier(refs).errors([hyp.split()], refs[:1], [src.split()])
    return sorted(error.kind for error in errors)


@pytest.mark.parametrize(
    ("hyp", "ref", "expected"),
    [
        ("a b c d", "a b c d", []),
        ("a c d", "a b c d", ["missing"]),
        ("a b x c d", "a b c d", ["added"]),
        ("a b b c d", "a b c d", ["repeated"]),
        ("a b c a b c d", "a b c d", ["repeated"] * 3),
        ("c a b d", "a b c d", ["order"]),
        ("d e a b c", "a b c d e", ["order"] * 2),
        ("a", "a b c d", ["cut"] * 3),
        ("die Mann", "der Mann", ["function"]),
        ("der Man", "der Mann", ["form"]),
        ("Häuser brennen", "Haus brennt", ["form"] * 2),
        ("mann", "Mann", ["capitals"]),
        ("um 17 Uhr", "um 71 Uhr", ["number"]),
        ("um Uhr", "um 71 Uhr", ["number"]),
        ("a , b", "a b", ["punctuation"]),
        ("a . b", "a , b", ["punctuation"]),
        ("der Hund", "der Tisch", ["word"]),
        ("", "a b", ["missing"] * 2),
        ("a b", "", ["added"] * 2),
    ],
)
def test_classes(hyp: str, ref: str, expected: list[str]) -> None:
    assert kinds(hyp, ref) == expected


@pytest.mark.parametrize(
    ("hyp", "ref", "expected"),
    [
        ("da ist Anna", "da ist Paul", ["name"]),
        ("da ist", "da ist Paul", ["name"]),
        ("there ist Paul", "da ist Paul", ["source"]),
    ],
)
def test_classes_with_a_source(hyp: str, ref: str, expected: list[str]) -> None:
    assert kinds(hyp, ref, "there is Paul") == expected


def test_alignment_costs_least() -> None:
    """Random lines: as many errors as the edits of the cheapest alignment at most, and none without a difference."""
    rng = random.Random(5)
    lines = [[rng.choice("abcdefgh") for _ in range(rng.randrange(12))] for _ in range(300)]
    others = [[word for word in line if rng.random() < 0.8] for line in lines]
    classifier = ErrorClassifier(lines)
    for hyp, ref, errors in zip(others, lines, classifier.errors(others, lines), strict=True):
        assert len(errors) == len(ref) - len(hyp)
        assert {error.kind for error in errors} <= {"missing", "cut"}


def test_ngrams_are_counted_where_one_system_alone_is_right() -> None:
    ref = [["a", "b", "c"]] * 5
    (best, *_) = ngram_differences(ref, [["a", "c"]] * 4 + [["a", "b", "c"]], ref)
    assert (best.ngram, best.only_first, best.only_other, best.total, best.z) == ("b", 4, 0, 5, 2.0)


def test_ngram_differences_are_those_of_counters() -> None:
    """Random lines: every difference that is listed has the counts of a slow count."""
    rng = random.Random(2)
    refs, one, other = ([rng.choices("abcd", k=rng.randrange(9)) for _ in range(60)] for _ in range(3))
    one[:20], other[:30] = refs[:20], refs[:30]
    for each in ngram_differences(one, other, refs):
        ngram, alone, total = each.ngram.split(), [0, 0], 0
        for line in zip(one, other, refs, strict=True):
            counts = [sum(words[i : i + len(ngram)] == ngram for i in range(len(words))) for words in line]
            difference = min(counts[0], counts[2]) - min(counts[1], counts[2])
            alone[difference < 0] += abs(difference)
            total += counts[2]
        assert [each.only_first, each.only_other, each.total] == [*alone, total]


def test_one_sided_errors_are_shown_with_their_side() -> None:
    shown = [
        str(WordError(*each)) for each in (("punctuation", ".", ""), ("number", "", "7"), ("missing", "nicht", ""))
    ]
    assert shown == [". → ∅", "∅ → 7", "nicht"]


def test_error_differences_are_counts_with_examples() -> None:
    error = WordError("missing", "nicht", "")
    (each,) = error_differences([[], [error], []], [[error], [error], [error]])
    assert (each.first, each.other, each.examples) == (1, 3, ["nicht ×2"])
    assert each.z == pytest.approx(2**0.5)


def test_changed_lines_are_ordered_by_their_gain() -> None:
    lines = changed_lines(([10, 50, 30], [40, 50, 0]), (["a", "b", "c"], ["x", "b", "z"]))
    assert [(line.number, line.change) for line in lines] == [(1, 30), (3, -30)]


def test_differences_are_marked_as_wdiff_does() -> None:
    assert marked("der Hund schläft nicht .", "der Hund schläft .") == "der Hund schläft [-nicht-] ."
    assert marked("a b", "a c") == "a [-b-] {+c+}"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("Haus", "Häuser", True), ("der", "de", True), ("der", "dem", False), ("Hund", "Hand", False), ("", "a", False)],
)
def test_forms(one: str, other: str, expected: bool) -> None:
    assert are_forms(one, other) == are_forms(other, one) == expected
