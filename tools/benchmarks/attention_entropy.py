"""Entropy of attention and derivative of its softmax, with products divided by the root of the width of a head and not.

    python tools/benchmarks/attention_entropy.py [--queries 2000]

Queries and keys of a head are drawn from N(0, 1), as Vaswani et al. 2017 assume (footnote 4), or are those of an
untrained encoder layer with one head, whose weights are drawn as for a training. 32 keys: equal weights have an entropy
of ln 32 = 3.47 nats. The derivative is the Frobenius norm of d weights / d products, diag(p) - p p^T; printed is its
mean over the queries, in brackets.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import Tensor

from mtkit.analysis.head_statistics import entropy, recorded_attention
from mtkit.corpus.order.batch import Source
from mtkit.layers.softmax import softmax
from mtkit.models.transformer.config import TransformerConfig

WIDTHS, KEYS, VOCAB = (8, 32, 128, 512), 32, 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--queries", type=int, default=2000)
    queries: int = parser.parse_args().queries
    torch.manual_seed(1)
    print("| width of a head | drawn, scaled | drawn, not scaled | untrained, scaled | untrained, not scaled |")
    with torch.inference_mode():
        for width in WIDTHS:
            cells = [
                summary(of(width, queries, scaled=scaled)) for of in (drawn, untrained) for scaled in (True, False)
            ]
            print(f"| {width} | {' | '.join(cells)} |")


def drawn(width: int, queries: int, *, scaled: bool) -> Tensor:
    """Attention weights of queries and keys from N(0, 1), [N, KEYS]."""
    products = torch.einsum("nd,nkd->nk", torch.randn(queries, width), torch.randn(queries, KEYS, width))
    return softmax(products / math.sqrt(width) if scaled else products)


def untrained(width: int, queries: int, *, scaled: bool) -> Tensor:
    """Attention weights of the first layer of an untrained encoder for random tokens, [N, KEYS]."""
    config = TransformerConfig(
        d_model=width, num_heads=1, d_ff=width, encoder_layers=1, decoder_layers=1, scaled_attention=scaled
    )
    model = config.build(VOCAB, VOCAB).eval()
    sentences = math.ceil(queries / KEYS)
    positions = torch.arange(KEYS).expand(sentences, -1)
    source = Source(torch.randint(4, VOCAB, (sentences, KEYS)), torch.ones_like(positions, dtype=torch.bool), positions)
    with recorded_attention(model) as weights:
        model.start(source)
    return next(each for name, each in weights.items() if name.startswith("encoder.")).reshape(-1, KEYS)


def summary(weights: Tensor) -> str:
    """Mean entropy and mean norm of the derivative."""
    derivative = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return f"{entropy(weights).mean():.2f} ({derivative.flatten(1).norm(dim=1).mean():.2f})"


if __name__ == "__main__":
    main()
