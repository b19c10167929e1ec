"""Warnings about inputs of an evaluation: encodings, tokenized text, languages, tokenizers that change the score."""

from __future__ import annotations

import random

import pytest
from sacrebleu.metrics.bleu import BLEU

from mtkit.evaluation.comparison import compare
from mtkit.evaluation.plausibility import implausible_inputs, unexpected_languages
from mtkit.evaluation.tokenizer_choice import choose_tokenizer, tokenizer_sensitivity

GERMAN = ["Der große Hund läuft über die Straße.", "Zwei Männer sitzen auf einer Bank im Park."] * 20
ENGLISH = ["The big dog runs across the street.", "Two men sit on a bench in the park."] * 20
MIXED = [
    "The word 今天天气很好我们去公园 is Chinese for a walk in the park and so on",
    "A plain sentence follows it",
] * 20
NEARLY = [line.replace("今天", "明天") for line in MIXED]


def test_full_width_letters_in_one_text_only() -> None:
    wide = [line.replace("Hund", "Ｈｕｎｄ") for line in GERMAN]
    assert "normal forms differ: 0% of the translations and 50%" in implausible_inputs(GERMAN[::-1], [wide])[0]
    assert implausible_inputs(wide[::-1], [wide]) == []
    ellipsis = [*GERMAN[:-1], "Ende…"]
    assert implausible_inputs(GERMAN[::-1], [ellipsis]) == []


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_misread_encodings(encoding) -> None:
    misread = [line.encode().decode(encoding) for line in GERMAN]
    assert "40 translations look like UTF-8 that was read in another" in "".join(implausible_inputs(misread, [GERMAN]))
    assert "20 reference lines" in "".join(implausible_inputs(GERMAN, [[*GERMAN[:20], *misread[20:]]]))


@pytest.mark.parametrize("text", ["À côté de l’Île", "São João, Ângela", "“Größe” – 5 € ™", "Âge ± 2 ½", "été à Ã"])
def test_other_accents_are_not_taken_for_misread_text(text) -> None:
    assert implausible_inputs([text, "x"], [["x", text]]) == []


def test_tokenized_translations_of_plain_references() -> None:
    tokenized = [line.replace(".", " .") for line in GERMAN]
    (sentence,) = implausible_inputs(tokenized, [GERMAN])
    assert sentence.startswith(
        "40 of 40 translations end in a space and a full stop, as tokenized text does, and 0 ref"
    )
    assert implausible_inputs(tokenized[::-1], [tokenized]) == []


def test_languages_that_differ() -> None:
    (sentence,) = unexpected_languages(ENGLISH, [GERMAN])
    assert sentence == (
        "the translations look like language en, but the references like de; are these the right files?"
    )
    assert unexpected_languages(GERMAN[::-1], [GERMAN]) == []
    assert unexpected_languages(ENGLISH[:5], [GERMAN[:5]]) == []


def test_partly_unspaced_text() -> None:
    choice = choose_tokenizer(MIXED, None)
    assert choice.name == "13a"
    sentence = tokenizer_sensitivity(NEARLY, [MIXED], choice)
    assert sentence is not None
    for name in ("13a", "zh"):
        assert f"{BLEU(tokenize=name).corpus_score(NEARLY, [MIXED]).score:.1f} with {name}" in sentence
    assert "% of the letters of the references are Chinese" in sentence
    assert sentence in compare({"x": NEARLY}, [MIXED], intervals=False).scores["x"].notes
    assert compare({"x": NEARLY}, [MIXED], ["chrf"], intervals=False).scores["x"].notes == ()


def test_a_character_tokenizer_for_spaced_text() -> None:
    changed = [line.replace("Hund", "Hase") for line in GERMAN]
    sentence = tokenizer_sensitivity(changed, [GERMAN], choose_tokenizer(GERMAN, "th", "char"))
    assert sentence is not None
    assert sentence.partition("since ")[2].startswith("the references have spaces between words")


def test_punctuation_outside_ascii() -> None:
    ref = ["वह घर जाता है।", "यह बड़ा कुत्ता है।"] * 20
    hyp = [line.replace("।", ".") for line in ref]
    sentence = tokenizer_sensitivity(hyp, [ref], choose_tokenizer(ref, "hi"))
    assert sentence is not None
    assert "with intl, since 100% of the references contain punctuation outside ASCII" in sentence


@pytest.mark.parametrize("text", [GERMAN, ENGLISH, ["今天天气很好，我们去公园散步。", "我们明天再去。"] * 20])
def test_no_warning_for_texts_of_one_script(text) -> None:
    hyp = [line[:-3] for line in text]
    assert tokenizer_sensitivity(hyp, [text], choose_tokenizer(text, None)) is None


def test_one_line_for_most_sources_is_reported() -> None:
    refs = [f"sentence {number} is another one" for number in range(40)]
    for seed in range(200):
        rng = random.Random(seed)
        share = rng.choice([0.0, 0.2, 0.4, 0.6, 0.9, 1.0])
        lines = rng.randint(3, 40)
        same = round(share * lines)
        hyps = [*["the same " + " " * (n % 2) for n in range(same)], *(f"other {n}" for n in range(lines - same))]
        rng.shuffle(hyps)
        found = [note for note in implausible_inputs(hyps, [refs[:lines]]) if "are the same line" in note]
        assert bool(found) == (same >= max(3, lines / 2)), (same, lines)
        if found:
            assert found[0].startswith(f"{same} of {lines} translations are the same line, where at most 1 reference")
    assert not any("same line" in note for note in implausible_inputs(["yes"] * 9, [["yes"] * 8 + ["no"]]))


def test_blank_lines_of_references_are_reported() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        lines, count = rng.randint(2, 40), rng.randint(1, 3)
        refs = [[rng.choice(["", " ", f"line {n}"]) for n in range(lines)] for _ in range(count)]
        notes = implausible_inputs(["a", "b", "c"] * lines, [ref * 3 for ref in refs])
        blank = sum(all(not ref[n].strip() for ref in refs) for n in range(lines)) * 3
        assert (f"{blank:,} of {3 * lines:,} reference lines are blank" in notes) == (blank > 0)
        for number, ref in enumerate(refs, 1):
            own = 3 * sum(not line.strip() for line in ref)
            is_reported = f"{own:,} of {3 * lines:,} lines of reference {number} are blank" in notes
            assert is_reported == (count > 1 and own >= max(1, 0.3 * lines))
