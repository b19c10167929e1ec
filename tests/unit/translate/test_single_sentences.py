"""Lines of several sentences: split for models of single sentences, and flagged where most of a line is lost."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest

from mtkit.search.config import MaxLength
from mtkit.search.length_penalty import Average
from mtkit.text.lines import read_lines
from mtkit.text.sentences import split_sentences
from mtkit.translate.lines import ConstrainedLine
from mtkit.translate.score import score_lines
from mtkit.translate.translator import TranslationOptions, Translator, is_short
from tests.toy.sampling import seeds
from tests.unit.translate.toy_translator import WORDS, translator

DATA = Path(__file__).parents[3] / "data"
SCORED = TranslationOptions(with_scores=True, restore=False)  # a repaired line is that of another source
SEEDS = seeds(20, 200)


def of_single_sentences(tokenizers, options: TranslationOptions = SCORED, **search) -> Translator:
    model = translator(tokenizers, max_source_length=search.pop("max_source_length", 40), options=options, **search)
    model.single_sentences = True
    return model


def random_line(rng: random.Random) -> str:
    """Sentences with marks that touch their words or are words of their own, and with abbreviations and numbers."""
    inside = ["Mr. Cat", "e.g. a dog", "3.5", "https://a.org/b.c", ",", "(a man)"]
    words = [word for word in WORDS if word not in ",."]
    sentences = []
    for _ in range(rng.choice([1, 1, 2, 3, 5])):
        chosen = rng.choices(words, k=rng.randint(1, 7)) + rng.choices(inside, k=rng.choice([0, 0, 1]))
        rng.shuffle(chosen)
        text = " ".join(chosen)
        sentences.append(text[:1].upper() + text[1:] + rng.choice([".", "!", " .", "?", "…"]))
    return rng.choice(["", "", " "]) + rng.choice([" ", "  "]).join(sentences) + rng.choice(["", "", " "])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_line_is_translated_as_its_sentences_are_alone(tokenizers, seed):
    rng = random.Random(seed)
    lines = ["", *(random_line(rng) for _ in range(3))]
    model, plain = of_single_sentences(tokenizers), translator(tokenizers, max_source_length=40, options=SCORED)
    translations = list(model.translate(lines))
    assert [each.line for each in translations] == [1, 2, 3, 4]
    for line, found, whole in zip(lines, translations, plain.translate(lines), strict=True):
        sentences = [each.strip() for each in split_sentences(line.strip())]
        if len(sentences) < 2:
            assert (found.hyp, found.tokens, found.flags) == (whole.hyp, whole.tokens, whole.flags)
            continue
        parts = list(plain.translate(sentences))
        assert found.hyp.split() == " ".join(part.hyp for part in parts).split()
        assert found.log_prob == pytest.approx(sum(part.log_prob for part in parts), abs=1e-3)
        flat = [log_prob for part in parts for log_prob in part.token_log_probs]
        assert found.token_log_probs == pytest.approx(flat, abs=1e-4)
        assert found.score == pytest.approx(Average(alpha=1.0).score(found.log_prob, len(flat)), abs=1e-4)
        eos = tokenizers.tgt.ids_to_tokens([tokenizers.tgt.vocab.eos])
        assert list(found.tokens) == [*itertools.chain(*((*part.tokens, *eos) for part in parts))][:-1]
        assert found.length_ratio > 0
        assert "split" not in found.flags
        src_starts, tgt_starts = (
            [0, *itertools.accumulate(len(each.split()) for each in texts)]
            for texts in (sentences, [part.hyp for part in parts])
        )
        shifted = {
            (i + src_starts[number], j + tgt_starts[number])
            for number, part in enumerate(parts)
            for i, j in part.alignment
        }
        if all(" ".join(part.hyp.split()) == part.hyp for part in parts):
            assert set(found.alignment) == shifted
        (forced,) = score_lines(model.engine, tokenizers, [(line, found.tokens)], max_source_length=40)
        assert forced.log_prob == pytest.approx(found.log_prob, abs=1e-3)


LINE = "The dog sees a cat. A man finds the house. The woman sees a red house."


@pytest.mark.whole
@pytest.mark.parametrize("key", ["prefix", "include", "exclude"])
def test_lines_with_constraints_stay_as_they_were(tokenizers, key):
    line = ConstrainedLine(text=LINE, **{key: "the" if key == "prefix" else ("the",)})
    for length in (40, 12):  # the shorter limit splits a line with a prefix
        model = of_single_sentences(tokenizers, max_source_length=length)
        plain = translator(tokenizers, max_source_length=length, options=SCORED)
        assert [*model.translate([line])] == [*plain.translate([line])]


@pytest.mark.whole
def test_a_line_stays_whole_on_request(tokenizers):
    whole = translator(tokenizers, max_source_length=40).translate_lines([LINE])
    parts = translator(tokenizers, max_source_length=12).translate_lines([LINE])
    assert of_single_sentences(tokenizers).translate_lines([LINE]) == parts != whole
    unsplit = replace(SCORED, split_sentences=False)
    assert of_single_sentences(tokenizers, unsplit).translate_lines([LINE]) == whole
    assert of_single_sentences(tokenizers, split_long_lines=False).translate_lines([LINE]) == whole
    assert translator(tokenizers, max_source_length=40).translate_lines([LINE]) == whole


def test_lines_that_lose_most_of_their_source_are_short():
    """In words of the embedded corpus: hardly a translation is flagged, and the first of eight sentences always."""
    pairs = [
        (len(src.split()), len(tgt.split()))
        for part in ("train", "valid", "test")
        for src, tgt in zip(read_lines(DATA / f"{part}.en"), read_lines(DATA / f"{part}.de"), strict=True)
    ]
    ratio = sum(tgt for _, tgt in pairs) / sum(src for src, _ in pairs)
    assert sum(is_short(src, tgt, ratio) for src, tgt in pairs) < len(pairs) / 1000
    for start in range(0, 8000, 8):
        line = pairs[start : start + 8]
        assert is_short(sum(src for src, _ in line), line[0][1], ratio)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_short_depends_on_the_usual_ratio(ratio):
    for num_src in range(200):
        usual = round(ratio * num_src)
        flagged = [num_tgt for num_tgt in range(usual + 1) if is_short(num_src, num_tgt, ratio)]
        assert flagged == list(range(len(flagged)))  # whatever is shorter than a short translation is short as well
        assert len(flagged) <= max(0, usual / 2 - 4)
        assert bool(flagged) == (ratio * num_src > 10)


def test_a_short_translation_is_flagged(tokenizers):
    model = translator(tokenizers)
    model.length_ratio, model.search = 1.0, replace(model.search, max_length=MaxLength(factor=0.1, offset=1))
    line = " ".join(["the dog sees a cat and"] * 6)
    (translation,) = model.translate([line])
    assert is_short(len(tokenizers.src.encode([line])[0]), len(translation.tokens), 1.0)
    assert "short" in translation.flags
    model.length_ratio = 0.2
    (translation,) = model.translate([line])
    assert "short" not in translation.flags
