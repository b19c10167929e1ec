"""Missing spans and terms take the place of the words that attend to them; what is not in place is flagged."""

from __future__ import annotations

import numpy as np
import pytest

from mtkit.text.spans import find_spans, missing_spans
from mtkit.translate.alignment import Aligned, token_ends
from mtkit.translate.glossary import Glossary
from mtkit.translate.output import FlagSummary
from mtkit.translate.repair import restorable, restore
from mtkit.translate.translator import TranslationOptions
from tests.unit.translate.toy_translator import MODELS, build_model, sentences, transformer, translator


def aligned(src: str, hyp: str, links: dict[int, int]) -> Aligned:
    """An alignment of words: for each word of the translation the word of the source that it attends to."""
    src_tokens, tgt_tokens = ([f"\u2581{word}" for word in text.split(" ")] for text in (src, hyp))
    attention = np.full((len(tgt_tokens), len(src_tokens)), 0.01, dtype=np.float32)
    for target, source in links.items():
        attention[target, source] = 0.9
    alignment = Aligned.of(src, src_tokens, hyp, tgt_tokens, attention)
    assert alignment is not None
    return alignment


@pytest.mark.parametrize(
    ("src", "hyp", "links", "expected"),
    [
        ("see https://a.b/c now", "siehe http jetzt", {0: 0, 1: 1, 2: 2}, "siehe https://a.b/c jetzt"),
        ("see {x} now.", "jetzt siehe das.", {0: 2, 1: 0, 2: 1}, "jetzt siehe {x}."),
        ("4,500 men", "20 Männer", {0: 0, 1: 1}, "4,500 Männer"),
        ("a %s b {y} c", "A eins zwei B drei C", {0: 0, 1: 1, 2: 1, 3: 2, 4: 3, 5: 4}, "A %s B {y} C"),
        ("see write(2) now", "siehe vergib jetzt", {0: 0, 1: 1, 2: 2}, "siehe 2 jetzt"),
        ("2 men", "zwei Männer", {0: 0, 1: 1}, "zwei Männer"),  # a word for a number
        ("a {x} b", "A B", {0: 0, 1: 2}, "A B"),  # no word attends to it
        ("a {x} {y} b", "A {y} B", {0: 0, 1: 1, 2: 3}, "A {y} B"),  # that word is a span itself
    ],
)
def test_a_span_takes_the_place_of_the_words_that_attend_to_it(src, hyp, links, expected):
    restored, replacements = restore(src, restorable(src, find_spans(src), hyp), aligned(src, hyp, links))
    assert restored == expected
    for start, old, new in reversed(replacements):
        assert hyp[start : start + len(old)] == old
        hyp = hyp[:start] + new + hyp[start + len(old) :]
    assert hyp == expected


def test_tokens_that_are_no_characters_are_not_aligned():
    assert token_ends(["\u2581a", "b", "\u2581c"], "ab c") == [1, 2, 4]
    assert token_ends(["\u2581a", "<0xC3>"], "aä") is None


SOURCES = ["the dog sees https://a.b/c?d=1 .", "a {x} cat", "4,500 dogs", "the \U0001f600 man", "a big man"]


@pytest.mark.whole
@pytest.mark.parametrize("config", MODELS, ids=lambda c: c.kind)
def test_every_span_is_in_the_translation_or_the_line_is_flagged(tokenizers, config):
    for restores in (True, False):
        options = TranslationOptions(restore=restores)
        model = translator(tokenizers, build_model(config, tokenizers), options=options)
        for source, result in zip(SOURCES * 3, model.translate(SOURCES * 3), strict=True):
            lacking = missing_spans(find_spans(source), result.hyp)
            assert ("missing" in result.flags) == any(not span.is_number for span in lacking)
            assert ("numbers" in result.flags) >= any(span.is_number for span in lacking)
            assert result.hyp == result.nbest[0].hyp


@pytest.mark.whole
@pytest.mark.parametrize("max_source_length", range(4, 30))
def test_a_span_that_is_cut_with_its_line_is_in_the_translation_or_flagged(tokenizers, max_source_length):
    model = translator(tokenizers, max_source_length=max_source_length)
    (result,) = model.translate(["the dog https://dxdbe.org/ebdxd sees"])
    assert "https://dxdbe.org/ebdxd" in result.hyp or "missing" in result.flags


def test_spans_are_restored_and_other_lines_stay(tokenizers):
    with_spans = translator(tokenizers, options=TranslationOptions(restore=True))
    without = translator(tokenizers, options=TranslationOptions(restore=False))
    lines = [*SOURCES, *sentences(20)]
    restored, plain = (list(each.translate(lines)) for each in (with_spans, without))
    assert [r.hyp for r in restored][4:] == [p.hyp for p in plain][4:]
    assert sum("missing" in p.flags for p in plain) > sum("missing" in r.flags for r in restored)
    assert any("https://a.b/c?d=1" in r.hyp for r in restored)


def test_each_of_the_n_best_has_the_flags_of_what_it_lacks(tokenizers):
    glossary = Glossary()
    glossary.add("man", ["Mensch"], "x:1")
    model = translator(tokenizers, beam_size=4, n_best=4, options=TranslationOptions(glossary=glossary))
    others: set[str] = set()
    for source, result in zip(SOURCES, model.translate(SOURCES), strict=True):
        assert len(result.nbest) == 4
        assert set(result.nbest[0].flags) == {"missing", "numbers", "terms"} & {*result.flags}
        for each in result.nbest:
            lacking = missing_spans(find_spans(source), each.hyp)
            assert ("missing" in each.flags) == any(not span.is_number for span in lacking)
            assert ("numbers" in each.flags) >= any(span.is_number for span in lacking)
            assert ("terms" in each.flags) == ("man" in source.split() and "Mensch" not in each.hyp.split())
        others.update(flag for each in result.nbest[1:] for flag in each.flags)
    assert others == {"missing", "numbers", "terms"}


def test_a_line_that_was_split_has_one_alternative_with_the_flags_of_all_its_parts(tokenizers):
    model = translator(tokenizers, max_source_length=8, n_best=2, options=TranslationOptions(restore=False))
    (result,) = model.translate(["the dog sees {x} . " * 4])
    (only,) = result.nbest
    assert "split" in result.flags
    assert only.flags == ("missing",)


def test_terms_are_forced_counted_and_flagged(tokenizers):
    glossary = Glossary()
    for source, form in (("dog", "Köter"), ("red house", "Rotes-Haus")):
        glossary.add(source, [form, "small"], "x:1")
    lines = [line for line in sentences(60) if line]
    model = translator(tokenizers, transformer(tokenizers), options=TranslationOptions(glossary=glossary))
    plain = translator(tokenizers, transformer(tokenizers), options=TranslationOptions())
    summary = FlagSummary()
    count = 0
    for line, result, before in zip(lines, model.translate(lines), plain.translate(lines), strict=True):
        summary.add(result)
        terms = glossary.find(line)
        count += len(terms)
        assert [source for source, _ in result.terms] == [line[t.start : t.end] for t in terms]
        assert ("terms" in result.flags) == any(not form for _, form in result.terms)
        assert all(form in result.hyp for _, form in result.terms)
        if not terms:
            assert result.hyp == before.hyp
        assert len(result.hyp.split()) <= len(before.hyp.split())  # nothing is appended
    honoured = summary.terms()
    assert count > 10
    assert honoured is not None
    assert honoured.endswith(f" of {count} terms of the glossary are in an allowed form")
    assert not honoured.startswith("0 ")


def test_the_alignment_is_that_of_the_repaired_words(tokenizers):
    glossary = Glossary()
    for source, form in (("dog", "sehr kleiner Köter"), ("red house", "Rotes-Haus")):
        glossary.add(source, [form], "x:1")
    lines = [line for line in sentences(60) if line]
    options = {"with_scores": True}
    model = translator(tokenizers, options=TranslationOptions(glossary=glossary, **options))
    plain = translator(tokenizers, options=TranslationOptions(**options))
    shifted = 0
    for result, before in zip(model.translate(lines), plain.translate(lines), strict=True):
        words, old = result.hyp.split(), before.hyp.split()
        assert all(t < len(words) for _, t in result.alignment)
        kept = {(s, old[t]) for s, t in before.alignment if old[t] in words}
        assert kept <= {(s, words[t]) for s, t in result.alignment}
        shifted += len(words) != len(old)
        if "sehr kleiner Köter" in result.hyp:
            first = words.index("sehr")
            of_words = [{s for s, t in result.alignment if t == first + i} for i in range(3)]
            assert of_words[0] == of_words[1] == of_words[2] != set()
    assert shifted > 3
