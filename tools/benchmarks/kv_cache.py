"""Time of greedy decoding by the length of the translation, with a cache of keys and values and without.

    python tests/benchmarks/kv_cache.py [--longest 1024] [--rounds 3]

Model T with random weights, one source of 20 tokens, one thread. With the cache each step computes one position
(`step`); without it each step computes the decoder states of the whole prefix, and those of the 20 source tokens, and
uses the last (`decode_states`). Both must choose the same tokens. Printed are the least processor seconds of the rounds
and the slope of log(time) over log(length): with the cache a step costs a constant plus attention to the prefix, so
that the slope is between 1 and 2; without it, between 2 and 3 once products outweigh the overhead of a call.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from attention_scaling import exponent

from mtkit.corpus.order.batch import Source, Target
from mtkit.inference.prepare import prepare_for_inference
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.config import TransformerConfig

VOCAB, SOURCE, SHORTEST, BOS = 8000, 20, 64, 2

Decode = Callable[[TranslationModel, Source, int], list[int]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--longest", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    plain = TransformerConfig(d_model=256, d_ff=1024, encoder_layers=3, decoder_layers=3).build(VOCAB, VOCAB).eval()
    fast = prepare_for_inference(plain, torch.float32, torch.device("cpu"))
    lengths = [SHORTEST]
    while 2 * lengths[-1] <= options.longest:
        lengths.append(2 * lengths[-1])
    source = Source(torch.randint(4, VOCAB, (1, SOURCE)), torch.ones(1, SOURCE, dtype=torch.bool), positions(SOURCE))
    cases = [("cache", with_cache, fast), ("cache, not rewritten", with_cache, plain), ("none", without_cache, plain)]
    seconds: dict[str, list[float]] = {}
    with torch.inference_mode():
        for name, decode, model in cases:
            seconds[name] = [min(timed(decode, model, source, n) for _ in range(options.rounds)) for n in lengths]
        if with_cache(plain, source, SHORTEST) != without_cache(plain, source, SHORTEST):
            raise SystemExit("the cache changes the translation")
    for name, values in seconds.items():
        row = ", ".join(f"{n}: {1000 * s:.0f} ms" for n, s in zip(lengths, values, strict=True))
        upper = exponent(lengths[-3:], values[-3:])
        print(f"{name:22} {row}; exponent {exponent(lengths, values):.2f}, of the last three lengths {upper:.2f}")


def positions(length: int) -> torch.Tensor:
    """Positions of one sentence, [1, length]."""
    return torch.arange(length)[None]


def with_cache(model: TranslationModel, source: Source, length: int) -> list[int]:
    """The most probable tokens, one step each."""
    state, tokens = model.start(source), [BOS]
    for _ in range(length):
        step = model.step(torch.tensor([tokens[-1]]), state)
        state = step.state
        tokens.append(int(step.logits().argmax()))
    return tokens[1:]


def without_cache(model: TranslationModel, source: Source, length: int) -> list[int]:
    """The most probable tokens, each from the states of the whole prefix."""
    tokens = [BOS]
    for count in range(1, length + 1):
        target = Target(torch.tensor([tokens]), torch.ones(1, count, dtype=torch.bool), positions(count))
        hidden = model.decode_states(source, target)[:, -1]
        tokens.append(int(model.output(hidden).argmax()))
    return tokens[1:]


def timed(decode: Decode, model: TranslationModel, source: Source, length: int) -> float:
    """Processor seconds of one translation."""
    start = time.process_time()
    decode(model, source, length)
    return time.process_time() - start


if __name__ == "__main__":
    main()
