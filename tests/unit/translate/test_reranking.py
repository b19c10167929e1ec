"""Minimum Bayes risk and reranking by a language model against their equations."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from mtkit.corpus.order.batch import Target, collate_source
from mtkit.errors import DataError, NonFiniteError
from mtkit.layers.config import LearnedConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.length_penalty import Average
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.reranking import LanguageModelReranking, MinimumBayesRisk
from mtkit.translate.score import score_lines
from tests.unit.translate.toy_translator import build_model, transformer


def test_ranking_by_expected_utility():
    rng = random.Random(0)
    texts = ["".join(rng.choices("abc", k=4)) for _ in range(20)]

    def equal_letters(hyp: str, ref: str) -> float:
        return sum(x == y for x, y in zip(hyp, ref, strict=True))

    def utility(texts):
        return np.array([[equal_letters(hyp, ref) for ref in texts] for hyp in texts])

    order = MinimumBayesRisk(utility).order(texts)
    expected = [sum(equal_letters(h, ref) for ref in texts) / len(texts) for h in texts]
    assert sorted(order) == list(range(20))
    assert [expected[i] for i in order] == sorted(expected, reverse=True)


def reranking(model, tokenizers):
    engine = ModelEngine([model], compute_type="float32", rewrite=False, name="lm")
    return LanguageModelReranking(engine, tokenizers, weight=0.5, penalty=Average())


def candidates(*texts: str) -> list[list[Hypothesis]]:
    return [[Hypothesis([5], -1.0, -1.0, [-0.5, -0.5], text=text) for text in texts]]


def test_errors_of_a_language_model_name_no_line_since_it_scores_hypotheses(tokenizers):
    broken = transformer(tokenizers)
    with torch.no_grad():
        broken.output.weight.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match=r"^lm: computes NaN or infinity; its weights are unusable"):
        reranking(broken, tokenizers)(candidates("the dog", "a cat"))
    config = TransformerConfig(d_model=8, d_ff=8, num_heads=2, decoder_positions=LearnedConfig(max_length=9))
    with pytest.raises(DataError, match=r"^lm: a translation is too long for the positions of this model"):
        reranking(build_model(config, tokenizers), tokenizers)(candidates("the dog", "the dog " * 20))


def test_an_empty_hypothesis_has_the_probability_of_the_end_of_sentence(tokenizers):
    model, vocab = transformer(tokenizers), tokenizers.tgt.vocab
    empty, other = (Hypothesis(ids, -1.0, -1.0, [], text=text) for ids, text in (([], ""), ([5], "the dog")))
    ranking = reranking(model, tokenizers)
    source = collate_source([[]], tokenizers.src.vocab)
    target = Target(*(torch.tensor([[value]]) for value in (vocab.bos, True, 0)))
    with torch.inference_mode():
        end = model.output(model.decode_states(source, target)[:, 0]).log_softmax(-1)[0, vocab.eos].item()
    assert end < -0.1
    [text] = score_lines(ranking.engine, tokenizers, [("", "the dog")])
    assert ranking.scores([empty, other]) == pytest.approx([-1 + 0.5 * end, -1 + 0.5 * text.log_prob / 2], abs=1e-5)
