"""Statistics of attention against loops; recorded weights against those that decoding returns."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mtkit.analysis.head_statistics import HeadSums, attention_modules, entropy, forced_attention, recorded_attention
from mtkit.corpus.order.batch import Batch, collate
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.text.vocab import Vocab

VOCAB = Vocab(size=30, pad=0, unk=1, bos=2, eos=3)
CONFIG = TransformerConfig(d_model=12, d_ff=16, num_heads=3, encoder_layers=2, decoder_layers=3)


def batch(*lengths: int) -> Batch:
    generator = torch.Generator().manual_seed(1)
    sides = [[torch.randint(4, 30, (n,), generator=generator).tolist() for n in lengths] for _ in range(2)]
    return collate(*sides, list(range(len(lengths))), VOCAB, VOCAB)


def attention(queries: int, *, heads: int = 2, sentences: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(sentences, heads, queries, queries, generator=generator).mul(3).softmax(-1)


def test_means_are_those_of_loops_over_real_queries() -> None:
    weights, real = attention(5), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 0]]).bool()
    sums = HeadSums(is_self_attention=True)
    sums.add(weights[:2], real[:2])
    sums.add(weights[2:], real[2:])
    means = sums.means()
    for head in range(2):
        rows = [(t, weights[b, head, t].tolist()) for b in range(3) for t in range(5) if real[b, t]]
        expected = sum(-sum(w * math.log(w) for w in row) for _, row in rows) / len(rows)
        assert means[head, 0].item() == pytest.approx(expected, rel=1e-5)
        assert means[head, 1].item() == pytest.approx(sum(max(row) for _, row in rows) / len(rows), rel=1e-6)
        for column, offset in enumerate((-1, 0, 1)):
            hits = sum(row.index(max(row)) == t + offset for t, row in rows)
            assert means[head, 2 + column].item() == pytest.approx(hits / len(rows))


def test_a_head_that_looks_at_the_previous_token() -> None:
    weights = torch.zeros(1, 1, 6, 6)
    weights[0, 0, torch.arange(1, 6), torch.arange(5)] = 1
    weights[0, 0, 0, 0] = 1
    sums = HeadSums(is_self_attention=True)
    sums.add(weights, torch.ones(1, 6).bool())
    means = sums.means()
    assert means[0, 0].item() == 0
    assert means[0, 2:].tolist() == pytest.approx([5 / 6, 1 / 6, 0])


def test_entropy_of_known_distributions() -> None:
    weights = torch.tensor([[0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]])
    assert entropy(weights).tolist() == pytest.approx([math.log(4), 0.0])


def test_every_module_is_recorded_and_the_model_is_left_as_it_was() -> None:
    model, pairs = CONFIG.build(VOCAB.size, VOCAB.size).eval(), batch(4, 2)
    with recorded_attention(model) as weights, torch.inference_mode():
        model.decode_states(pairs.source, pairs.target)
        assert weights.keys() == attention_modules(model).keys()
        shapes = {name: tuple(each.shape) for name, each in weights.items()}
    assert shapes["encoder.1.attention"] == (2, 3, 5, 5)
    assert shapes["decoder.2.cross_attention"] == (2, 3, 5, 5)
    recorded = dict(weights)
    with torch.inference_mode():
        model.decode_states(pairs.source, pairs.target)
    assert all(weights[name] is recorded[name] for name in recorded)


@pytest.mark.parametrize("config", [CONFIG, AttentionRNNConfig(d_model=8, d_embed=8, d_attention=8)])
def test_attention_of_steps_is_a_distribution_over_the_source(config) -> None:
    model, pairs = config.build(VOCAB.size, VOCAB.size).eval(), batch(4, 2)
    with torch.inference_mode():
        weights = forced_attention(model, pairs)
    assert weights.shape == (2, 5, 5)
    real = pairs.target.real
    torch.testing.assert_close(weights.sum(-1)[real], torch.ones(int(real.sum())))
    assert (weights * ~pairs.source.real[:, None]).abs().max() == 0


def test_attention_of_steps_is_that_of_teacher_forcing() -> None:
    model, pairs = CONFIG.build(VOCAB.size, VOCAB.size).eval(), batch(4, 2)
    with recorded_attention(model) as weights, torch.inference_mode():
        model.decode_states(pairs.source, pairs.target)
        whole = weights["decoder.1.cross_attention"].mean(1)  # the last but one layer
    with torch.inference_mode():
        steps = forced_attention(model, pairs)
    torch.testing.assert_close(steps[pairs.target.real], whole[pairs.target.real], rtol=1e-5, atol=1e-6)


def test_a_model_without_attention() -> None:
    model = Seq2SeqRNNConfig(d_model=8, d_embed=8).build(VOCAB.size, VOCAB.size).eval()
    with pytest.raises(ValueError, match="no attention"):
        forced_attention(model, batch(3))
