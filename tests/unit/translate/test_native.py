"""Translation by the native library: batches, order, threads and workers change nothing, to the last bit."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from mtkit import hardware
from mtkit.inference.native_search import NativeModel
from mtkit.native import library
from mtkit.native.library import native
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.weights import weights
from mtkit.translate import workers
from mtkit.translate.engine import NativeEngine
from mtkit.translate.lines import ConstrainedLine
from mtkit.translate.translation import Translation
from mtkit.translate.translator import TranslationOptions, Translator
from mtkit.translate.workers import WorkerPool
from tests.unit.translate.toy_translator import MODELS, UNUSUAL, sentences, transformer

LINES = sentences(14, 10) + UNUSUAL


@pytest.fixture(params=["float32", "bf16", "int8"])
def compute_type(request) -> str:
    if native().functions is None:
        pytest.skip(f"no native library: {native().reason}")
    return request.param


def native_translator(
    tokenizers: TokenizerPair, compute_type: str, beam_size: int, *, share: float = 0.0, **options
) -> Translator:
    """A translator of the toy model; `share` of the weights of all tokens are those of one, so that there are ties."""
    search = SearchConfig(beam_size=beam_size, n_best=beam_size, max_length=MaxLength(factor=1.0, offset=5))
    written = transformer(tokenizers)
    with torch.no_grad():
        written.output.weight.lerp_(written.output.weight[:1].clone(), share)
    arrays = {name: tensor.numpy() for name, tensor in weights(written).items()}
    model = NativeModel(MODELS[0], arrays, compute_type)
    engine = NativeEngine(model, name="toy", load_reference=lambda: pytest.fail("runs as written"))
    return Translator(engine, tokenizers, search, options=TranslationOptions(**{"with_scores": True, **options}))


def load(tokenizers: TokenizerPair, compute_type: str) -> Translator:
    return native_translator(tokenizers, compute_type, 3)


def results(translations: list[Translation]) -> list[tuple]:
    return [(t.hyp, t.score, t.log_prob, t.token_log_probs, t.alignment, t.nbest) for t in translations]


@pytest.mark.whole
@pytest.mark.parametrize("beam_size", [1, 3])
def test_batches_and_order_change_nothing(beam_size, compute_type, tokenizers) -> None:
    alone = results(native_translator(tokenizers, compute_type, beam_size, batch_tokens=1).translate(LINES))
    for batch_tokens, window in ((60, 7), (10_000, 100)):
        options = {"batch_tokens": batch_tokens, "window": window}
        translate = native_translator(tokenizers, compute_type, beam_size, **options).translate
        assert results(translate(LINES)) == alone
        assert results(translate(LINES[::-1]))[::-1] == alone


@pytest.mark.parametrize("beam_size", [1, 3])
def test_scores_and_constraints_of_other_lines_change_no_translation(beam_size, compute_type, tokenizers) -> None:
    lines = sentences(50, 8)
    plain, scored = (
        native_translator(tokenizers, compute_type, beam_size, share=0.999, with_scores=with_scores)
        for with_scores in (False, True)
    )
    hyps = plain.translate_lines(lines)
    translations = list(scored.translate(lines))
    assert [translation.hyp for translation in translations] == hyps
    assert all(math.isclose(sum(each.token_log_probs), each.log_prob, rel_tol=1e-4) for each in translations)
    mixed = [ConstrainedLine(text=line, prefix="a") if number % 3 == 0 else line for number, line in enumerate(lines)]
    assert [each.hyp for each in plain.translate(mixed)][1::3] == hyps[1::3]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_the_number_of_threads_changes_nothing(beam_size, compute_type, tokenizers, monkeypatch) -> None:
    monkeypatch.setattr(library, "MIN_ROWS", 1)
    translate = native_translator(tokenizers, compute_type, beam_size).translate
    translations = []
    for number in (1, 2, 3):
        monkeypatch.setattr(hardware, "_num_threads", number)
        translations.append(results(translate(LINES)))
    assert translations[0] == translations[1] == translations[2]


@pytest.mark.whole
def test_workers_change_nothing(compute_type, tokenizers, monkeypatch) -> None:
    """Copies of this process, which has already translated with threads of its own."""
    monkeypatch.setattr(workers, "CHUNK_LINES", 4)
    monkeypatch.setattr(library, "MIN_ROWS", 1)
    monkeypatch.setattr(hardware, "_num_threads", 2)
    alone = results(load(tokenizers, compute_type).translate(LINES))
    with WorkerPool(functools.partial(load, tokenizers, compute_type), 2) as pool:
        assert results(pool.translate(LINES)) == alone
