"""Time and cache of greedy decoding with keys and values for all attention heads, for two, and for one.

    python tools/benchmarks/kv_heads.py [--longest 1024] [--sentences 16] [--rounds 3]

The base model of Vaswani et al. 2017 (512 wide, 8 heads, 6 decoder layers) with random weights, one encoder layer and
a vocabulary of 8,000, sources of 20 tokens, one thread, as `translate` prepares it. Printed are the least processor
milliseconds of the rounds for a translation of each length of all sentences together, how many times faster than 8
heads that is, and the size of the decoder's cache: 2 · layers · heads of keys · 64 · 4 bytes for a token of a sentence.
"""

from __future__ import annotations

import argparse
import time

import torch
from kv_cache import BOS, SOURCE, VOCAB, positions

from mtkit.corpus.order.batch import Source
from mtkit.inference.prepare import prepare_for_inference
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.config import TransformerConfig

HEADS, WIDTH, LAYERS, SHORTEST = 8, 512, 6, 64
KV_HEADS = (8, 2, 1)  # multi-head, grouped-query, multi-query


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--longest", type=int, default=1024)
    parser.add_argument("--sentences", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lengths = [SHORTEST]
    while 4 * lengths[-1] <= options.longest:
        lengths.append(4 * lengths[-1])
    models = {kv_heads: model_with(kv_heads) for kv_heads in KV_HEADS}
    source = source_of(options.sentences)
    seconds: dict[tuple[int, int], list[float]] = {}
    with torch.inference_mode():
        for _ in range(options.rounds):  # interleaved, so that other work on the machine meets all alike
            for kv_heads, model in models.items():
                for length in lengths:
                    seconds.setdefault((kv_heads, length), []).append(timed(model, source, length))
    best = {key: min(values) for key, values in seconds.items()}
    print(f"| heads of keys | bytes a token | {' | '.join(f'{n:,} tokens, ms' for n in lengths)} |")
    for kv_heads in KV_HEADS:
        cells = [f"{1000 * best[kv_heads, n]:,.0f} ({best[KV_HEADS[0], n] / best[kv_heads, n]:.2f})" for n in lengths]
        size = 2 * LAYERS * kv_heads * (WIDTH // HEADS) * 4
        print(f"| {kv_heads} | {size:,} | {' | '.join(cells)} |")


def model_with(kv_heads: int) -> TranslationModel:
    """Return a prepared model with this number of heads of keys and values."""
    torch.manual_seed(1)
    config = TransformerConfig(
        d_model=WIDTH, d_ff=4 * WIDTH, num_heads=HEADS, num_kv_heads=kv_heads, encoder_layers=1, decoder_layers=LAYERS
    )
    return prepare_for_inference(config.build(VOCAB, VOCAB).eval(), torch.float32, torch.device("cpu"))


def source_of(sentences: int) -> Source:
    """Return random sources, [sentences, SOURCE]."""
    mask = torch.ones(sentences, SOURCE, dtype=torch.bool)
    return Source(torch.randint(4, VOCAB, (sentences, SOURCE)), mask, positions(SOURCE).expand(sentences, -1))


def timed(model: TranslationModel, source: Source, length: int) -> float:
    """Processor seconds of a greedy translation of `length` tokens of every sentence."""
    start = time.process_time()
    state = model.start(source)
    tokens = torch.full((source.ids.size(0),), BOS)
    for _ in range(length):
        step = model.step(tokens, state)
        state, tokens = step.state, step.logits().argmax(dim=-1)
    return time.process_time() - start


if __name__ == "__main__":
    main()
