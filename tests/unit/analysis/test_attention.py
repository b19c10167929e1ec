"""Rollout against loops, and maps of all kinds of attention."""

from __future__ import annotations

import random

import pytest
import torch

from mtkit.analysis.attention import attention_maps, rollout
from mtkit.corpus.order.batch import collate
from mtkit.layers.config import FullAttentionConfig
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.text.vocab import Vocab

VOCAB = Vocab(size=30, pad=0, unk=1, bos=2, eos=3)


def test_rollout_follows_every_path_through_the_layers() -> None:
    """Shares of the source and of the target prefix by loops over the sublayers; together they are 1."""
    generator = torch.Generator().manual_seed(1)
    weights = {
        name: torch.rand(*shape, generator=generator).softmax(-1)
        for layer in range(3)
        for name, shape in (
            (f"encoder.{layer}.attention", (4, 4)),
            (f"decoder.{layer}.attention", (3, 3)),
            (f"decoder.{layer}.cross_attention", (3, 4)),
        )
    }
    order = sorted(weights, key=lambda name: (name.startswith("decoder"), name))
    encoder, source = rollout({name: weights[name] for name in order})
    states = [[float(i == j) for j in range(4)] for i in range(4)]
    for layer in range(3):
        a = weights[f"encoder.{layer}.attention"].tolist()
        states = [
            [(states[i][j] + sum(a[i][k] * states[k][j] for k in range(4))) / 2 for j in range(4)] for i in range(4)
        ]
    torch.testing.assert_close(encoder, torch.tensor(states))
    rows = [[0.0] * 4 + [float(i == j) for j in range(3)] for i in range(3)]  # shares of source and target
    for layer in range(3):
        a, c = (weights[f"decoder.{layer}.{name}"].tolist() for name in ("attention", "cross_attention"))
        rows = [[(rows[i][j] + sum(a[i][k] * rows[k][j] for k in range(3))) / 2 for j in range(7)] for i in range(3)]
        mixed = [[sum(c[i][k] * states[k][j] for k in range(4)) for j in range(4)] + [0.0] * 3 for i in range(3)]
        rows = [[(rows[i][j] + mixed[i][j]) / 2 for j in range(7)] for i in range(3)]
    assert all(sum(row) == pytest.approx(1) for row in rows)
    torch.testing.assert_close(source, torch.tensor(rows)[:, :4])


@pytest.mark.parametrize("seed", range(8))
def test_maps_are_distributions_over_their_columns(seed: int) -> None:
    rng = random.Random(seed)
    src, tgt = ([rng.randrange(4, 30) for _ in range(rng.randint(1, 9))] for _ in range(2))
    config = rng.choice(
        [
            TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=2, decoder_layers=rng.randint(1, 3)),
            TransformerConfig(
                d_model=8,
                d_ff=8,
                num_heads=2,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention=FullAttentionConfig(),
            ),
            AttentionRNNConfig(d_model=8, d_embed=8, d_attention=8),
            Seq2SeqRNNConfig(d_model=8, d_embed=8),
        ]
    )
    model = config.build(VOCAB.size, VOCAB.size).eval()
    names = [[f"s{n}" for n in range(len(src) + 1)], [f"t{n}" for n in range(len(tgt) + 1)]]
    start = rng.randint(0, 1)
    maps = attention_maps(model, collate([src], [tgt], [0], VOCAB, VOCAB), *names, start=start)
    if isinstance(config, TransformerConfig):
        modules = config.encoder_layers + 2 * config.decoder_layers
        assert len(maps) == 3 + 3 * modules
    else:
        assert len(maps) == isinstance(config, AttentionRNNConfig)
    for each in maps:
        weights = torch.tensor(each.weights)
        assert weights.shape == (len(each.rows), len(each.columns))
        assert each.rows in ([*names[1][start:]], names[0])
        assert set(each.columns) <= {*names[0], "(begin)", *names[1]}
        if each.module != "rollout over the source":
            torch.testing.assert_close(weights.sum(1), torch.ones(len(weights)), atol=2e-3, rtol=0)
