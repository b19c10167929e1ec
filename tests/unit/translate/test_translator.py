"""Translation of lines with small untrained models: order, blanks, batches, long lines, invalid input."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mtkit.corpus.coverage import Doubt, Doubts
from mtkit.errors import DataError, NonFiniteError, UsageError
from mtkit.search.config import DiverseBeamConfig, MaxLength, MinimumBayesRiskConfig, SamplingConfig, SearchConfig
from mtkit.search.hypothesis import Hypothesis
from mtkit.translate.alignment import words_of
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.segments import space_between
from mtkit.translate.translator import TranslationOptions, Translator
from tests.unit.translate.toy_translator import MODELS, UNUSUAL, build_model, sentences, transformer, translator


@pytest.mark.parametrize("config", MODELS, ids=lambda c: c.kind)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_batches_windows_and_order_change_nothing(tokenizers, config, beam_size):
    model, lines = build_model(config, tokenizers), sentences(12, 8) + UNUSUAL
    results = []
    for batch_tokens, window in [(1, 50), (150, 7), (10_000, 100)]:
        options = TranslationOptions(with_scores=True, batch_tokens=batch_tokens, window=window)
        results.append(list(translator(tokenizers, model, beam_size=beam_size, options=options).translate(lines)))
    for other in results[1:]:
        assert [t.hyp for t in other] == [t.hyp for t in results[0]]
        assert [t.score for t in other] == pytest.approx([t.score for t in results[0]], abs=1e-4)
        assert [t.flags for t in other] == [t.flags for t in results[0]]
    backwards = translator(tokenizers, model, beam_size=beam_size).translate_lines(lines[::-1])
    assert backwards[::-1] == [t.hyp for t in results[0]]


def test_coverage_penalty_needs_attention(tokenizers):
    with pytest.raises(UsageError, match=r"search.coverage_penalty: this model gives no attention over the source"):
        translator(tokenizers, build_model(MODELS[2], tokenizers), coverage_penalty=0.2).translate_lines(["the dog"])


@pytest.mark.whole
@pytest.mark.parametrize(
    "method", [SamplingConfig(top_p=0.9, num_samples=2), DiverseBeamConfig(groups=2)], ids=lambda method: method.kind
)
def test_sampling_and_diverse_beam_do_not_depend_on_the_batch(tokenizers, method):
    lines = sentences(10)
    results = [
        translator(
            tokenizers,
            beam_size=4,
            method=method,
            n_best=2,
            options=TranslationOptions(batch_tokens=size),
        ).translate_lines(lines)
        for size in (1, 200, 10_000)
    ]
    assert results[0] == results[1] == results[2]


def test_one_line_for_each_line_and_blank_for_blank(tokenizers):
    translations = list(translator(tokenizers, max_source_length=6).translate(UNUSUAL * 2))
    assert [t.line for t in translations] == list(range(1, 2 * len(UNUSUAL) + 1))
    for line, t in zip(UNUSUAL * 2, translations, strict=True):
        assert (not line.strip()) <= (t.hyp == "")
        assert not any(mark in t.hyp for mark in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
    assert ["unknown" in t.flags for t in translations[7:9]] == [True, True]


def test_lines_before_an_invalid_line_are_translated(tokenizers):
    def lines():
        yield "the dog"
        yield "a cat"
        raise DataError("text:3: byte 1 is not UTF-8")

    stream = translator(tokenizers).translate(lines())
    assert [next(stream).line, next(stream).line] == [1, 2]
    with pytest.raises(DataError, match="text:3"):
        next(stream)


def test_flush_every_reads_no_further(tokenizers):
    read: list[int] = []

    def lines():
        for i, line in enumerate(sentences(6)):
            read.append(i)
            yield line

    options = TranslationOptions(flush_every=2)
    stream = translator(tokenizers, options=options).translate(lines())
    next(stream)
    assert read == [0, 1]


def test_long_lines_are_split_and_neighbours_are_unchanged(tokenizers):
    long = "the dog sees a cat .\u3000 a man loves the house , and the big red house and the cat in the small house .\t"
    lines = ["the cat", long, "a dog ."]
    translations = list(translator(tokenizers, max_source_length=8).translate(lines))
    alone = translator(tokenizers, max_source_length=8).translate_lines(["the cat", "a dog ."])
    assert [translations[0].hyp, translations[2].hyp] == alone
    assert "split" in translations[1].flags
    assert translations[1].hyp.endswith("\t")
    assert sum(translations[1].token_log_probs) == pytest.approx(translations[1].log_prob, abs=1e-4)
    assert all(s < len(long.split()) and t < len(translations[1].hyp.split()) for s, t in translations[1].alignment)


def test_white_space_that_the_vocabulary_lacks_separates_words_in_alignments(tokenizers):
    line = "the dog\u3000sees a cat ."
    (ids,) = tokenizers.src.encode([line])
    tokens = tokenizers.src.spell(line, ids)
    assert tokenizers.src.vocab.unk in ids
    assert len(tokens) == len(ids)
    assert words_of(tokens)[-1] == len(line.split()) - 1
    (translation,) = translator(tokenizers).translate([line])
    assert max(s for s, _ in translation.alignment) < len(line.split())


def test_long_lines_stay_whole_without_split_long_lines(tokenizers):
    lines = sentences(12, 20)
    translations = list(translator(tokenizers, max_source_length=8, split_long_lines=False).translate(lines))
    without_limit = translator(tokenizers, max_source_length=None)
    assert [t.hyp for t in translations] == without_limit.translate_lines(lines)
    assert [t.flags[:1] == ("long",) for t in translations] == [len(ids) > 8 for ids in tokenizers.src.encode(lines)]
    assert not any("split" in t.flags for t in translations)


def test_reranking_reorders_the_n_best(tokenizers):
    plain = list(translator(tokenizers, n_best=3).translate(sentences(5)))
    t = translator(tokenizers, n_best=3)
    t.rerankings = [lambda lists: [[each[i] for i in (2, 0, 1)] for each in lists]]
    for a, b in zip(plain, t.translate(sentences(5)), strict=True):
        assert b.hyp == a.nbest[2].hyp
        assert [n.hyp for n in b.nbest] == [a.nbest[i].hyp for i in (2, 0, 1)]


def test_model_of_the_caller_is_not_changed(tokenizers):
    model = transformer(tokenizers).train()
    engine = ModelEngine([model], compute_type="bf16")
    assert model.training
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert engine.models[0] is not model
    assert len(Translator(engine, tokenizers, SearchConfig()).translate_lines(sentences(4))) == 4


def test_reranking_receives_all_hypotheses_and_returns_the_n_best(tokenizers):
    seen = []

    def backwards(lists):
        seen.extend(len(each) for each in lists)
        return [each[::-1] for each in lists]

    config = SearchConfig(
        beam_size=4, n_best=2, rerank=MinimumBayesRiskConfig(), max_length=MaxLength(factor=1.0, offset=5)
    )
    engine = ModelEngine([transformer(tokenizers)], compute_type="float32")
    lines = sentences(6)
    ranked = list(Translator(engine, tokenizers, config, rerankings=[backwards]).translate(lines))
    plain = list(Translator(engine, tokenizers, replace(config, rerank=None, n_best=4)).translate(lines))
    assert seen == [4] * 6
    for a, b in zip(plain, ranked, strict=True):
        assert [n.hyp for n in b.nbest] == [a.nbest[3].hyp, a.nbest[2].hyp]
    with pytest.raises(ValueError, match="rerank: there is only one hypothesis"):
        replace(config, beam_size=1, n_best=1)


@pytest.mark.whole
def test_int8_does_not_depend_on_the_batch(tokenizers):
    engine = ModelEngine([transformer(tokenizers, seed=1)], compute_type="int8")  # with seed 0 there is a near-tie
    assert engine.compute_type == "int8"
    lines, search = sentences(30), SearchConfig(max_length=MaxLength(factor=1.0, offset=5))
    alone, together = (
        Translator(engine, tokenizers, search, options=TranslationOptions(batch_tokens=tokens)) for tokens in (40, 4000)
    )
    assert alone.translate_lines(lines) == together.translate_lines(lines)


def test_invalid_settings_are_refused(tokenizers):
    with pytest.raises(UsageError, match="batch_tokens must be at least 1, not 0"):
        TranslationOptions(batch_tokens=0)
    with pytest.raises(ValueError, match="n_best: 9 exceeds beam_size 3"):
        translator(tokenizers, n_best=9)


class LoopingEngine:
    """An engine that repeats one token until no_repeat_ngram forbids it."""

    name, compute_type, can_fork = "toy", "float32", False

    def make_search(self, search, *ids, with_scores):
        tokens = [5] * 30 if search.no_repeat_ngram == 0 else [5, 6, 7]
        return lambda requests: [[Hypothesis(tokens, -1.0, -1.0, [])] for _ in requests]


@pytest.mark.parametrize("retry", [True, False])
def test_line_with_a_loop_is_translated_again_if_retry_loops(tokenizers, retry) -> None:
    translator = Translator(LoopingEngine(), tokenizers, SearchConfig(beam_size=1, retry_loops=retry))
    (translation,) = translator.translate(["the big dog"])
    expected = [5, 6, 7] if retry else [5] * 30
    assert translation.hyp == next(iter(tokenizers.tgt.decode([expected]))).strip()
    assert "repetition" in translation.flags


class RecordingEngine:
    """An engine that records the number of sentences of each request."""

    name, compute_type, can_fork = "toy", "float32", False

    def __init__(self) -> None:
        self.batches: list[int] = []

    def make_search(self, search, *ids, with_scores):
        return self.search

    def search(self, requests):
        self.batches.append(len(requests))
        return [[Hypothesis([5], -1.0, -1.0, [])] for _ in requests]


@pytest.mark.parametrize(("beam_size", "expected"), [(1, [6] * 5), (5, [2] * 15)])
def test_batch_tokens_count_sentences_and_hypotheses(tokenizers, beam_size, expected) -> None:
    length = len(tokenizers.src.encode(["the big dog"])[0]) + 1
    options = TranslationOptions(batch_tokens=12 * length)
    engine = RecordingEngine()
    search = SearchConfig(beam_size=beam_size)
    Translator(engine, tokenizers, search, options=options).translate_lines(["the big dog"] * 30)
    assert engine.batches == expected


class FailingRerank:
    """Reverses n-best lists; fails for lists with one of some texts."""

    def __init__(self, texts, error):
        self.texts, self.error, self.num_calls = set(texts), error, 0

    def __call__(self, lists):
        self.num_calls += 1
        if any(candidate.text in self.texts for each in lists for candidate in each):
            raise self.error
        return [each[::-1] for each in lists]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DataError("lm: a translation is too long"), r"^line {}: lm: a translation is too long"),
        (NonFiniteError("lm"), r"^lm: computes NaN or infinity for line {}; its weights"),
    ],
    ids=["too long", "NaN"],
)
def test_translations_before_an_error_of_reranking_are_returned(tokenizers, error, message):
    lines = [f"{each} a" for each in sentences(20)]
    lines[3] = ""
    engine = translator(tokenizers, n_best=3)
    plain = list(engine.translate(lines))
    rerank = FailingRerank([plain[10].hyp, plain[16].hyp], error)
    engine.rerankings = [rerank]
    failed = next(i for i, t in enumerate(plain) if any(n.hyp in rerank.texts for n in t.nbest))
    assert 4 < failed <= 10
    stream = engine.translate(lines)
    before = [next(stream) for _ in range(failed)]
    with pytest.raises(type(error), match=message.format(failed + 1)):
        next(stream)
    assert [t.line for t in before] == list(range(1, failed + 1))
    assert [t.hyp for t in before] == [t.nbest[-1].hyp if t.nbest else "" for t in plain[:failed]]
    assert rerank.num_calls < 12


def test_reranking_without_an_error_is_one_call(tokenizers):
    engine = translator(tokenizers, n_best=3)
    rerank = FailingRerank([], DataError("none"))
    engine.rerankings = [rerank]
    engine.translate_lines(sentences(20))
    assert rerank.num_calls == 1


def test_sentences_of_a_line_are_translated_by_themselves(tokenizers):
    lines = ["the dog sees a cat . a man finds the house .", "the cat", "", " a dog . the  man ."]
    options = TranslationOptions(with_scores=True, split_sentences=True)
    translations = list(translator(tokenizers, options=options).translate(lines))
    alone = translator(tokenizers).translate_lines(["the dog sees a cat .", "a man finds the house .", "the cat"])
    assert [t.hyp for t in translations[:3]] == [f"{alone[0]} {alone[1]}", alone[2], ""]
    assert not any("split" in t.flags for t in translations)
    assert max(s for s, _ in translations[0].alignment) < len(lines[0].split())


@pytest.mark.parametrize(
    ("before", "space", "expected"), [("一。", " ", ""), ("One.", "", " "), ("One.", "  ", "  "), ("一", "", "")]
)
def test_space_between_sentences_is_that_of_the_target_script(before, space, expected):
    assert space_between(before, space) == expected


class _LastWords:
    """Doubts the last token with letters of each side, where the source has several."""

    def __init__(self, tokenizers):
        self.tokenizers = tokenizers

    def doubts(self, src, tgt):
        pairs = zip(src, tgt, strict=True)
        return [Doubts(self._last(self.tokenizers.src, s), self._last(self.tokenizers.tgt, t)) for s, t in pairs]

    def _last(self, tokenizer, ids):
        tokens = tokenizer.ids_to_tokens(ids)
        return [Doubt(n, 0.9) for n, token in enumerate(tokens) if any(map(str.isalpha, token))][-1:]


def test_dropped_and_invented_words_have_their_places_in_the_line_also_in_parts(tokenizers):
    long = "  the dog sees a cat . a man finds the house , and the big red house and the cat in the small house ."
    lines = [long, "the cat", *sentences(20), " big dog,"]
    whole = translator(tokenizers, max_source_length=8)
    whole.coverage = _LastWords(tokenizers)
    for line, result in zip(lines, whole.translate(lines), strict=True):
        for words, flag, text in ((result.dropped, "dropped", line), (result.invented, "invented", result.hyp)):
            assert (flag in result.flags) == bool(words)
            for word, name, probability in words:
                assert name in text.split()[word]
                assert name.strip(",.") == name
                assert probability == 0.9
        assert any(flag.startswith("dropped: ") and "(90%)" in flag for flag in result.described_flags()) == bool(
            result.dropped
        )
    (cut,) = whole.translate([long])
    assert len(cut.dropped) > 1
    assert [each.word for each in cut.dropped] == sorted({each.word for each in cut.dropped})
    assert cut.dropped[-1].text == "house"
    assert cut.dropped[-1].word == len(long.split()) - 2
    plain = translator(tokenizers, max_source_length=8)
    for one, other in zip(plain.translate(lines), whole.translate(lines), strict=True):
        assert (one.hyp, one.flags) == (other.hyp, tuple(f for f in other.flags if f not in ("dropped", "invented")))
