"""Translation goes on in smaller batches when memory runs out, with the same result."""

from __future__ import annotations

import itertools

import pytest

from mtkit.errors import ComputeError
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.translator import TranslationOptions, Translator
from tests.unit.translate.toy_translator import BLANK, sentences, transformer, translator

MESSAGES = [
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes. Error code 12",
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB",
    "std::bad_alloc",
]


class SmallMachine:
    """An engine whose allocator fails above a number of source tokens, half of the time after a part of the search."""

    def __init__(self, engine, capacity, error):
        self.name, self.compute_type, self.can_fork = engine.name, engine.compute_type, engine.can_fork
        self.engine, self.capacity, self.error = engine, capacity, error
        self.sizes, self.failures = [], 0

    def make_search(self, search, *ids, with_scores):
        inner = self.engine.make_search(search, *ids, with_scores=with_scores)

        def limited(requests):
            size = len(requests) * max(len(each.source) for each in requests)
            if size > self.capacity:
                self.failures += 1
                if self.failures % 2:
                    inner(requests)
                raise self.error
            self.sizes.append(size)
            return inner(requests)

        return limited


def translate(tokenizers, lines, capacity, error=None, *, batch_tokens=600, **search):
    """Translations, the engine, and the sizes that were reported."""
    engine = SmallMachine(ModelEngine([transformer(tokenizers)], compute_type="float32"), capacity, error)
    reported = []
    options = TranslationOptions(batch_tokens=batch_tokens, with_scores=True, window=20, report_oom=reported.append)
    config = translator(tokenizers, **search).search
    return list(Translator(engine, tokenizers, config, options=options).translate(lines)), engine, reported


@pytest.mark.whole
@pytest.mark.parametrize(
    ("error", "search"),
    [
        *((RuntimeError(message), {}) for message in MESSAGES),
        (MemoryError(), {"beam_size": 4, "n_best": 3}),
        *(pytest.param(MemoryError(), search, marks=pytest.mark.whole) for search in ({}, {"beam_size": 1})),
    ],
    ids=str,
)
def test_lines_and_order_are_the_same(tokenizers, error, search):
    lines = [*sentences(50, 8), *BLANK]
    expected, unlimited, nothing = translate(tokenizers, lines, 10**9, **search)
    translations, engine, reported = translate(tokenizers, lines, 40, error, **search)
    assert [t.line for t in translations] == list(range(1, len(lines) + 1))
    assert [t.hyp for t in translations] == [t.hyp for t in expected]
    assert [t.score for t in translations] == pytest.approx([t.score for t in expected], abs=1e-4)
    assert [[each.hyp for each in t.nbest] for t in translations] == [[e.hyp for e in t.nbest] for t in expected]
    assert max(unlimited.sizes) > 40 >= max(engine.sizes)
    assert nothing == []
    assert len(reported) == 1
    assert engine.failures < 10  # the smaller size is kept for all windows that follow


@pytest.mark.whole
def test_later_batches_are_small_at_once(tokenizers):
    lines = sentences(20)
    _, first, _ = translate(tokenizers, lines, 40, MemoryError())
    _, all_windows, _ = translate(tokenizers, lines * 4, 40, MemoryError())
    assert first.failures == all_windows.failures > 0


@pytest.mark.whole
def test_sampling_is_the_same(tokenizers):
    from mtkit.search.config import SamplingConfig

    lines = sentences(50)
    expected, *_ = translate(tokenizers, lines, 10**9, method=SamplingConfig())
    translations, engine, _ = translate(tokenizers, lines, 50, MemoryError(), method=SamplingConfig())
    assert engine.failures
    assert [t.hyp for t in translations] == [t.hyp for t in expected]


def test_a_single_line_that_does_not_fit_is_named_after_the_lines_before(tokenizers):
    lines = ["the dog", "a cat", "the " * 60, "a cat", "the " * 70]
    expected, *_ = translate(tokenizers, lines[:2], 10**9)
    engine = SmallMachine(ModelEngine([transformer(tokenizers)], compute_type="float32"), 30, RuntimeError(MESSAGES[0]))
    options = TranslationOptions(batch_tokens=600, with_scores=True)
    translations = Translator(engine, tokenizers, translator(tokenizers).search, options=options).translate(lines)
    assert [t.hyp for t in itertools.islice(translations, 2)] == [t.hyp for t in expected]
    message = r"^line 3: out of memory \(tried to allocate 4.0 GiB more\) in a batch of this line alone; split the line"
    with pytest.raises(ComputeError, match=message):
        next(translations)


def test_a_translation_that_does_not_fit_a_language_model_is_named(tokenizers):
    lines = sentences(9)
    plain = translator(tokenizers)
    hyps = plain.translate_lines(lines)
    first = next(i for i in range(1, 9) if hyps[i] not in hyps[:i])

    def rerank(lists):
        if any(candidate.text == hyps[first] for each in lists for candidate in each):
            raise ComputeError("out of memory in a batch of this line alone")
        return lists

    reranking = Translator(plain.engine, tokenizers, plain.search, options=plain.options, rerankings=[rerank])
    translations = reranking.translate(lines)
    assert [t.hyp for t in itertools.islice(translations, first)] == hyps[:first]
    with pytest.raises(ComputeError, match=rf"^line {first + 1}: out of memory in a batch of this line alone; split"):
        next(translations)


def test_other_errors_are_not_tried_again(tokenizers):
    error = RuntimeError("index out of range")
    with pytest.raises(RuntimeError, match="index out of range"):
        translate(tokenizers, sentences(40), 40, error)
