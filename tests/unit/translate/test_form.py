"""White space and invisible characters change no translation; a model without the normaliser reads text as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mtkit.io.records import read_record, write_record
from mtkit.model_folder.config_file import CONFIG
from mtkit.model_folder.folder import ModelMetadata, read_metadata, read_model, write_model
from mtkit.search.config import SearchConfig
from mtkit.search.hypothesis import Hypothesis
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.weights import weights
from mtkit.translate.lines import ConstrainedLine
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.score import score_lines
from tests.unit.text.test_plain import VARIANTS
from tests.unit.translate.toy_translator import MODELS, sentences, transformer, translator


@pytest.mark.whole
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("max_source_length", [pytest.param(None, marks=pytest.mark.whole), 6])  # 6: lines are split
def test_a_variant_is_translated_as_the_plain_line(tokenizers, variant, max_source_length):
    model = translator(tokenizers, max_source_length=max_source_length)
    lines = [line for line in sentences(12) if line]
    odd = [VARIANTS[variant](line.split()) for line in lines]
    for expected, found in zip(model.translate(lines), model.translate(odd), strict=True):
        assert (found.hyp.strip(), found.tokens, found.alignment) == (
            expected.hyp,
            expected.tokens,
            expected.alignment,
        )
        assert found.hyp == found.nbest[0].hyp


@pytest.mark.parametrize("max_source_length", [None, 4])
def test_outer_white_space_is_restored(tokenizers, max_source_length):
    model = translator(tokenizers, max_source_length=max_source_length)
    line = "the big dog sees a small red cat"
    (hyp,) = model.translate_lines([line])
    assert model.translate_lines([f"\t{line}\u3000 ", f"\xa0\ufeff{line}", f"{line}\u2028", "\u200b\xa0"]) == [
        f"\t{hyp}\u3000 ",
        f"\xa0{hyp}",
        f"{hyp} ",
        "",
    ]


LEFT = ["https://example.com/the-dog", "a@b.c", "{{name}}: %s", "<%= x %> /usr/lib/x.so", "foo_bar"]
MESSAGE = "{n, plural, one {# dog} other {# dogs}}"


@pytest.mark.parametrize("max_source_length", [None, 4])
def test_a_line_without_words_is_copied_and_a_message_left_and_flagged(tokenizers, max_source_length):
    model = translator(tokenizers, max_source_length=max_source_length)
    lines = ["the dog", *LEFT, "", f"see {MESSAGE}", "12 3", "a cat"]
    first, *found, digits, last = model.translate(lines)
    assert [each.hyp for each in found] == lines[1:-2]
    assert [each.flags for each in found] == [*((),) * 6, ("message",)]
    assert [each.line for each in found] == [*range(2, 9)]
    assert [first.hyp, digits.hyp, last.hyp] == model.translate_lines(["the dog", "12 3", "a cat"])
    assert digits.tokens
    free = model.varied(options=replace(model.options, restore=False))
    assert all(each.tokens for each in free.translate([*LEFT, MESSAGE]))
    (constrained,) = model.translate([ConstrainedLine(text=LEFT[0], prefix="dog")])
    assert constrained.hyp.startswith("dog")


def test_a_line_in_capitals_is_translated_in_lower_case_and_written_in_capitals(tokenizers):
    robust = replace(tokenizers, config=replace(tokenizers.config, robustness=0.1))
    model = translator(robust, max_source_length=4)
    lines = ["The dog sees {x} and a cat .", "The big man ."]
    expected = [hyp.upper().replace("{X}", "{x}") for hyp in model.translate_lines(lines)]
    capitals = ["THE DOG SEES {x} AND A CAT .", "THE BIG MAN ."]
    assert model.translate_lines(capitals) == expected
    assert "{x}" in expected[0]
    found = list(model.translate(["the dog", *capitals]))
    assert all(each.hyp == each.nbest[0].hyp for each in found)
    assert translator(tokenizers, max_source_length=4).translate_lines(capitals) != expected


LINE_WITH_SPANS = "the dog sees https://x.org and {name} at 12 ."


def with_copies(tokenizers: TokenizerPair) -> TokenizerPair:
    return replace(tokenizers, config=replace(tokenizers.config, copy_tokens=True))


@pytest.mark.whole
@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_copies_become_the_texts_of_their_spans_or_the_line_is_flagged(tokenizers, beam_size, seed):
    pair = with_copies(tokenizers)
    assert sum(token_id in pair.copy_ids("src") for token_id in pair.encode("src", [LINE_WITH_SPANS])[0]) == 3
    model = translator(pair, transformer(pair, seed), beam_size=beam_size)
    with torch.no_grad():  # so that copies are likely
        for token_id in pair.copy_ids("tgt"):
            model.engine.models[0].output.weight[token_id] *= 3
    for found in model.translate([LINE_WITH_SPANS, "a cat .", f"{LINE_WITH_SPANS} {LINE_WITH_SPANS}"]):
        assert "<spare" not in found.hyp
        is_whole = all(span in found.hyp for span in ("https://x.org", "{name}"))
        assert found.line == 2 or is_whole or "missing" in found.flags
        assert found.alignment or not found.hyp.strip()


def test_scores_of_tokens_with_copies_are_those_of_their_translation(tokenizers):
    pair = with_copies(tokenizers)
    model = transformer(pair, 2)
    lines = [LINE_WITH_SPANS, "the dog at {name} sees {name}"]
    found = list(translator(pair, model).translate(lines))
    engine = ModelEngine([model], compute_type="float32", rewrite=False)
    scores = list(score_lines(engine, pair, [(src, each.tokens) for src, each in zip(lines, found, strict=True)]))
    for score, each in zip(scores, found, strict=True):
        assert score.log_prob == pytest.approx(each.log_prob, abs=1e-4)
    texts = list(score_lines(engine, pair, [("see {name} at 12", "the {name} at 12"), ("see {name}", "the cat")]))
    assert [len(each.tokens) for each in texts] == [
        len(ids) for ids in pair.encode_texts(["see {name} at 12", "see {name}"], ["the {name} at 12", "the cat"])[1]
    ]


def test_scores_are_those_of_the_plain_pair(tokenizers):
    engine = ModelEngine([transformer(tokenizers)], compute_type="float32", rewrite=False)
    (expected,) = score_lines(engine, tokenizers, [("the dog sees", "a cat .")])
    odd = [("the\xa0dog  sees\xad", "a \u200bcat\t. ")]
    assert next(score_lines(engine, tokenizers, odd)).log_prob == pytest.approx(expected.log_prob, abs=1e-4)


def without_normaliser(tokenizers: TokenizerPair) -> TokenizerPair:
    return replace(tokenizers, config=replace(tokenizers.config, normaliser="none"))


def test_a_model_without_the_normaliser_reads_text_as_it_is(tokenizers):
    model, read = translator(without_normaliser(tokenizers)), []

    def search(requests):
        read.extend(request.source for request in requests)
        return [[Hypothesis(tokens=[], log_prob=0.0, score=0.0, token_log_probs=[0.0])] for _ in requests]

    model.engine.make_search = lambda *_, **__: search
    lines = [" the  dog ", "a\tb", "the\xadcat"]
    list(model.translate(lines))
    expected = [[*ids, tokenizers.src.vocab.eos] for ids in tokenizers.src.encode(lines)]
    assert sorted(read) == sorted(expected)


def test_folders_state_the_normaliser_and_those_of_earlier_versions_have_none(tokenizers, tmp_path):
    metadata = ModelMetadata(
        src_lang="en",
        tgt_lang="de",
        max_source_length=20,
        tokenizer=tokenizers.config,
        model=MODELS[0],
        search=SearchConfig(),
    )
    write_model(tmp_path / "model", weights(transformer(tokenizers)), metadata, tokenizers, card="")
    config = tmp_path / "model" / CONFIG
    fields = read_record(config, remedy="")
    assert fields["tokenizer"]["normaliser"] == "plain-1"
    assert read_metadata(config.parent).tokenizer.normaliser == "plain-1"
    del fields["tokenizer"]["normaliser"]
    write_record(config, fields)
    earlier = read_model(config.parent).tokenizers
    assert earlier.config.normaliser == "none"
    assert earlier.hash() == without_normaliser(tokenizers).hash() != tokenizers.hash()
    assert earlier.encode("src", [" the  dog "]) == earlier.src.encode([" the  dog "])
