"""Translating lines with small untrained models: order, blanks, batches, long lines, bad input."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mtkit.corpus.order.collate import collate
from mtkit.errors import DataError, UsageError
from mtkit.models.rnn.attention_config import AttentionRNNConfig
from mtkit.models.rnn.seq2seq import LSTMConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.beam.diverse import DiverseConfig
from mtkit.search.config import MaxLength, MinimumBayesRiskConfig, SearchConfig
from mtkit.search.interface import Hypothesis
from mtkit.search.sampling import SamplingConfig
from mtkit.text.tokenizer import TokenizerConfig, TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.translate.engines.interface import OwnEngine
from mtkit.translate.score import forced_log_probs, score_lines
from mtkit.translate.translator import TranslationOptions, Translator

NOUNS = ["dog", "cat", "man", "woman", "house"]
WORDS = ["the", "a", *NOUNS, "sees", "finds", "big", "small", "red", "and", "in", ",", "."]
BLANK = ["", "   ", "\u2028 \t", "\x85"]
ODD = [*BLANK, "the\u2028dog", "\x0c man", " a  cat ", "\u4e00\u4e8c", "\U0001f600 dog", "a\rb", "\x00"]


def sentences(count: int, longest: int = 12) -> list[str]:
    rng = random.Random(3)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> TokenizerPair:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    text = folder / "text"
    text.write_text("\n".join(sentences(200)) + "\n", encoding="utf-8")
    train_pair([text], [text], folder, TokenizerConfig(vocab_size=170))
    return TokenizerPair.load(folder)


def transformer(tokenizers: TokenizerPair, seed: int = 0):
    return model_of(MODELS[0], tokenizers, seed)


def model_of(config, tokenizers: TokenizerPair, seed: int = 0):
    torch.manual_seed(seed)
    model = config.build(tokenizers.src.vocab.size, tokenizers.tgt.vocab.size)
    with torch.no_grad():  # far from uniform, so that there are no near-ties, and sentences end
        model.output.weight.mul_(3)
    return model.eval()


def translator(tokenizers, model=None, *, beam_size=3, longest_source=None, options=None, **search) -> Translator:
    config = SearchConfig(beam_size=beam_size, max_length=MaxLength(a=1.0, b=5), **search)
    options = options or TranslationOptions(details=True)
    engine = OwnEngine([model or transformer(tokenizers)], compute_type="float32")
    return Translator(engine, tokenizers, config, longest_source=longest_source, options=options)


MODELS = [
    TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=2),
    AttentionRNNConfig(d_model=16, d_embedding=12, d_attention=8),
    LSTMConfig(d_model=16, d_embedding=12),
]


@pytest.mark.parametrize("config", MODELS, ids=lambda c: c.kind)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_batches_windows_and_order_change_nothing(tokenizers, config, beam_size):
    model, lines = model_of(config, tokenizers), sentences(12, 8) + ODD
    results = []
    for batch_tokens, window in [(1, 50), (150, 7), (10_000, 100)]:
        options = TranslationOptions(details=True, batch_tokens=batch_tokens, window=window)
        results.append(list(translator(tokenizers, model, beam_size=beam_size, options=options).translate(lines)))
    for other in results[1:]:
        assert [t.hyp for t in other] == [t.hyp for t in results[0]]
        assert [t.score for t in other] == pytest.approx([t.score for t in results[0]], abs=1e-4)
        assert [t.flags for t in other] == [t.flags for t in results[0]]
    backwards = translator(tokenizers, model, beam_size=beam_size).translate_lines(lines[::-1])
    assert backwards[::-1] == [t.hyp for t in results[0]]


def test_a_model_without_attention_has_no_coverage(tokenizers):
    with pytest.raises(UsageError, match=r"search.coverage_penalty: this model gives no attention over the source"):
        translator(tokenizers, model_of(MODELS[2], tokenizers), coverage_penalty=0.2).translate_lines(["the dog"])


@pytest.mark.parametrize(
    "method", [SamplingConfig(top_p=0.9, samples=2), DiverseConfig(groups=2)], ids=lambda method: method.kind
)
def test_other_methods_do_not_depend_on_the_batch(tokenizers, method):
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


def test_a_line_for_each_line_and_blank_for_blank(tokenizers):
    found = list(translator(tokenizers, longest_source=6).translate(ODD * 2))
    assert [t.line for t in found] == list(range(1, 2 * len(ODD) + 1))
    for line, t in zip(ODD * 2, found, strict=True):
        assert (not line.strip()) <= (t.hyp == "")
        assert not any(mark in t.hyp for mark in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
    assert ["unknown" in t.flags for t in found[7:9]] == [True, True]


def test_what_came_before_a_bad_line_is_translated(tokenizers):
    def lines():
        yield "the dog"
        yield "a cat"
        raise DataError("text:3: byte 1 is not UTF-8")

    stream = translator(tokenizers).translate(lines())
    assert [next(stream).line, next(stream).line] == [1, 2]
    with pytest.raises(DataError, match="text:3"):
        next(stream)


def test_lines_appear_when_they_are_asked_for(tokenizers):
    read: list[int] = []

    def lines():
        for i, line in enumerate(sentences(6)):
            read.append(i)
            yield line

    options = TranslationOptions(flush_every=2)
    stream = translator(tokenizers, options=options).translate(lines())
    next(stream)
    assert read == [0, 1]


def test_long_lines_are_split_and_neighbours_are_not_touched(tokenizers):
    long = "the dog sees a cat .\u3000 a man loves the house , and the big red house and the cat in the small house .\t"
    lines = ["the cat", long, "a dog ."]
    found = list(translator(tokenizers, longest_source=8).translate(lines))
    alone = translator(tokenizers, longest_source=8).translate_lines(["the cat", "a dog ."])
    assert [found[0].hyp, found[2].hyp] == alone
    assert "split" in found[1].flags
    assert "\u3000 " in found[1].hyp
    assert found[1].hyp.endswith("\t")
    assert sum(found[1].piece_log_probs) == pytest.approx(found[1].log_prob, abs=1e-4)
    assert all(s < len(long.split()) and t < len(found[1].hyp.split()) for s, t in found[1].alignment)


def test_long_lines_stay_whole_if_the_search_says_so(tokenizers):
    lines = sentences(12, 20)
    found = list(translator(tokenizers, longest_source=8, split_long_lines=False).translate(lines))
    assert [t.hyp for t in found] == translator(tokenizers).translate_lines(lines)  # as if the limit were not known
    assert [t.flags[:1] == ("long",) for t in found] == [len(ids) > 8 for ids in tokenizers.src.encode(lines)]
    assert not any("split" in t.flags for t in found)


@pytest.mark.parametrize("config", MODELS, ids=lambda c: c.kind)
def test_forced_log_probs_are_those_of_the_search(tokenizers, config):
    model, lines = model_of(config, tokenizers), sentences(15)
    t = translator(tokenizers, model, beam_size=3, n_best=2)
    segments = tokenizers.src.encode(lines)
    found = list(t.translate(lines))
    names = {tokenizers.tgt.pieces([i])[0]: i for i in range(tokenizers.tgt.vocab.size)}
    tgt = [[names[piece] for piece in one.pieces] for one in found]
    batch = collate(segments, tgt, range(len(lines)), tokenizers.src.vocab, tokenizers.tgt.vocab)
    for one, values in zip(found, forced_log_probs([model], batch), strict=True):
        assert sum(values) == pytest.approx(one.log_prob, abs=1e-4 * max(1, abs(one.log_prob)))
        assert one.piece_log_probs == pytest.approx(values, abs=1e-4)
    twice = forced_log_probs([model, model], batch)
    assert [sum(v) for v in twice] == pytest.approx([one.log_prob for one in found], rel=1e-4)


def test_forced_log_probs_of_a_line_that_was_split_are_those_of_its_parts(tokenizers):
    lines = [*sentences(6, 9), "the dog . a cat sees the house . and", " " * 20 + "the dog"]
    model = transformer(tokenizers)
    found = list(translator(tokenizers, model, longest_source=8).translate(lines))
    assert {"split" in t.flags for t in found} == {True, False}
    assert all(len(t.piece_log_probs) == len(t.pieces) + 1 for t in found)
    pairs = [(line, t.pieces) for line, t in zip(lines, found, strict=True)]
    for t, forced in zip(found, score_lines([model], tokenizers, pairs, longest_source=8), strict=True):
        assert forced.pieces == t.pieces
        assert forced.piece_log_probs == pytest.approx(t.piece_log_probs, abs=1e-4)
    with pytest.raises(DataError, match=r"was translated in \d parts, and this model would cut its source into 1"):
        list(score_lines([model], tokenizers, pairs))


def test_scores_of_lines_are_in_order(tokenizers):
    model, lines = transformer(tokenizers), sentences(20)
    pairs = [*zip(lines, lines[::-1], strict=True), ("", "")]
    together = list(score_lines([model], tokenizers, pairs))
    alone = [next(iter(score_lines([model], tokenizers, [pair]))) for pair in pairs]
    assert [s.line for s in together] == list(range(1, 22))
    assert [s.log_prob for s in together] == pytest.approx([s.log_prob for s in alone], abs=1e-4)
    assert (together[-1].log_prob, together[-1].perplexity) == (0.0, 1.0)


def test_reranking_chooses_among_the_n_best(tokenizers):
    plain = list(translator(tokenizers, n_best=3).translate(sentences(5)))
    t = translator(tokenizers, n_best=3)
    t.rerank = lambda texts: [2, 0, 1]
    for a, b in zip(plain, t.translate(sentences(5)), strict=True):
        assert b.hyp == a.nbest[2].hyp
        assert [n.hyp for n in b.nbest] == [a.nbest[i].hyp for i in (2, 0, 1)]


def test_the_model_of_the_caller_is_not_changed(tokenizers):
    model = transformer(tokenizers).train()
    engine = OwnEngine([model], compute_type="bf16")
    assert model.training
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {p.dtype for p in engine.models[0].parameters()} == {torch.bfloat16}
    assert len(Translator(engine, tokenizers, SearchConfig()).translate_lines(sentences(4))) == 4


def test_rerank_sees_all_and_gives_the_n_best(tokenizers):
    seen = []

    def backwards(texts):
        seen.append(len(texts))
        return list(reversed(range(len(texts))))

    config = SearchConfig(beam_size=4, n_best=2, rerank=MinimumBayesRiskConfig(), max_length=MaxLength(a=1.0, b=5))
    engine = OwnEngine([transformer(tokenizers)], compute_type="float32")
    lines = sentences(6)
    ranked = list(Translator(engine, tokenizers, config, rerank=backwards).translate(lines))
    plain = list(Translator(engine, tokenizers, replace(config, rerank=None, n_best=4)).translate(lines))
    assert seen == [4] * 6
    for a, b in zip(plain, ranked, strict=True):
        assert [n.hyp for n in b.nbest] == [a.nbest[3].hyp, a.nbest[2].hyp]
    with pytest.raises(ValueError, match="rerank: there is one hypothesis"):
        replace(config, beam_size=1, n_best=1)


def test_int8_translates_and_its_batches_do_not_matter(tokenizers):
    engine = OwnEngine([transformer(tokenizers)], compute_type="int8")
    assert engine.compute_type == "int8"
    lines = sentences(30)
    alone, together = (
        Translator(engine, tokenizers, SearchConfig(), options=TranslationOptions(batch_tokens=tokens))
        for tokens in (40, 4000)
    )
    assert alone.translate_lines(lines) == together.translate_lines(lines)


def test_what_is_not_there_is_refused(tokenizers):
    with pytest.raises(UsageError, match="batch_tokens must be at least 1, not 0"):
        TranslationOptions(batch_tokens=0)
    with pytest.raises(ValueError, match="n_best: 9 is more than beam_size 3"):
        translator(tokenizers, n_best=9)


class Stammering:
    """An engine that says one piece again and again until that is forbidden."""

    compute_type = "float32"
    device = torch.device("cpu")

    def finder(self, search, symbols, *, details):
        tokens = [5] * 30 if search.no_repeat_ngram == 0 else [5, 6, 7]
        return lambda request: [[Hypothesis(tokens, -1.0, -1.0, [])] for _ in range(request.num_sentences)]


@pytest.mark.parametrize("retry", [True, False])
def test_a_line_that_ran_into_a_loop_is_translated_once_more_if_so_wished(tokenizers, retry) -> None:
    translator = Translator(Stammering(), tokenizers, SearchConfig(beam_size=1, retry_loops=retry))
    (found,) = translator.translate(["the big dog"])
    expected = [5, 6, 7] if retry else [5] * 30
    assert found.hyp == next(iter(tokenizers.tgt.decode([expected]))).strip()
    assert "repetition" in found.flags
