"""How time and memory of each kind of attention grow with the length: one layer, forward and backward, on one thread.

    python tools/benchmarks/attention_scaling.py [--longest 16384] [--longest-full 4096] [--kinds window performer ...]

Each measurement is a process of its own; its memory is the peak less what was there before. The exponent is that of
the power law through all lengths (least squares of the logarithms), and through the upper half, where what does not
depend on the length is forgotten. Windowed and linear kinds must stay at or below 1.15; full attention is near 2;
strided attention, whose stride is the root of the length, is near 1.5; binary partition is n log n.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

from mtkit.layers.attention import AttentionParts
from mtkit.layers.config import FullAttentionConfig, RoPEConfig
from mtkit.layers.kinds import AttentionConfig
from mtkit.layers.sizes import Heads
from mtkit.layers.variants.config import (
    BinaryPartitionConfig,
    LinformerConfig,
    LongformerConfig,
    LSHConfig,
    PerformerConfig,
    StridedAttentionConfig,
    WindowAttentionConfig,
)

D_MODEL, HEADS = 256, Heads(4, 4, 64)
SHORTEST = 256
MOST = 1.15  # exponent of the windowed and linear kinds
SPARSE = ("window", "strided", "binary_partition")
LINEAR = ("window", "longformer", "lsh", "linformer", "performer")


@dataclass(frozen=True)
class Case:
    """One kind of attention, in an encoder or in a decoder."""

    kind: str
    causal: bool

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.kind} ({'decoder' if self.causal else 'encoder'})"

    def config(self, length: int) -> AttentionConfig:
        """What a recipe would say."""
        kinds: dict[str, AttentionConfig] = {
            "full": FullAttentionConfig(),
            "window": WindowAttentionConfig(),
            "longformer": LongformerConfig(),
            "strided": StridedAttentionConfig(stride=round(math.sqrt(length))),
            "binary_partition": BinaryPartitionConfig(),
            "lsh": LSHConfig(),
            "linformer": LinformerConfig(max_length=length),
            "performer": PerformerConfig(),
        }
        return kinds[self.kind]


CASES = [
    *(Case(kind, False) for kind in ("full", *SPARSE, "longformer", "lsh", "linformer", "performer")),
    *(Case(kind, True) for kind in ("full", *SPARSE, "performer")),
]


def measure(case: Case, length: int, answer: Connection) -> None:
    """Send seconds and bytes of one forward and backward pass."""
    torch.set_num_threads(1)
    position = RoPEConfig().build(D_MODEL, HEADS, layers=1, causal=case.causal).layers[0]
    parts = AttentionParts(
        d_model=D_MODEL, heads=HEADS, position=position, causal=case.causal, dropout=0.0, norm="none"
    )
    layer = case.config(length).build(parts)
    x, pos = torch.randn(1, length, D_MODEL, requires_grad=True), torch.arange(length).unsqueeze(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    began = time.perf_counter()
    while len(seconds) < 3 or (len(seconds) < 10 and time.perf_counter() - began < 1):
        start = time.process_time()
        layer(x, pos)[0].square().sum().backward()
        seconds.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer.send((min(seconds), (peak - before) * 1024))


def alone(case: Case, length: int) -> tuple[float, float]:
    """Seconds and bytes, measured in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(case, length, sender))
    process.start()
    sender.close()
    result: tuple[float, float] = receiver.recv()
    process.join()
    return result


def exponent(lengths: list[int], values: list[float]) -> float:
    """The slope of log(value) over log(length)."""
    x, y = [math.log(n) for n in lengths], [math.log(max(v, 1e-9)) for v in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--longest", type=int, default=16_384)
    parser.add_argument("--longest-full", type=int, default=4_096, help="16384 needs more than 20 GB")
    parser.add_argument("--kinds", nargs="*", default=None)
    options = parser.parse_args()
    for case in CASES:
        if options.kinds is not None and case.kind not in options.kinds:
            continue
        longest = options.longest_full if case.kind == "full" else options.longest
        lengths = [SHORTEST << i for i in range(int(math.log2(longest // SHORTEST)) + 1)]
        seconds, memory = (list(column) for column in zip(*(alone(case, n) for n in lengths), strict=True))
        print(case.name)
        for n, s, m in zip(lengths, seconds, memory, strict=True):
            print(f"  {n:6} tokens  {1000 * s:10.1f} ms  {m / 2**20:9.1f} MB")
        half = len(lengths) // 2
        verdict = f" (at most {MOST})" if case.kind in LINEAR else ""
        for what, values in (("time", seconds), ("memory", memory)):
            upper = exponent(lengths[half:], values[half:])
            print(f"  {what}: exponent {exponent(lengths, values):.2f}, upper half {upper:.2f}{verdict}", flush=True)


if __name__ == "__main__":
    main()
