"""Where the time of an update goes: processor seconds by kind of work, of trainings on a CPU.

    python tools/benchmarks/training_profile.py [NAME...] [--threads 1 2] [--precision float32 bf16]

Each training is run by `mtkit train` on Multi30k in a process of its own, with torch's profiler around some updates
after the first ones. An operation is counted where its own time is spent; the time between operations is Python's.
The profiler itself makes updates slower, mostly small operations: the shares are read, and the column "update" is
measured without it. MTKIT_CORPORA is the folder of corpora.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from model_t import CORPORA, MODELS, RECIPE

# kind of work -> the beginnings of the names of torch's operations; the first that fits counts
KINDS = {
    "attention": ("_Attention",),
    "loss, its products included": ("_ChunkedLoss",),
    "products": ("_Linear", "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "mkldnn::"),
    "softmax, mask": ("aten::_softmax", "_Softmax", "aten::where", "aten::masked_fill", "aten::exp", "aten::amax"),
    "norms": ("aten::native_layer_norm", "aten::rsqrt", "aten::var_mean"),
    "dropout": ("aten::random_", "aten::ge", "aten::bernoulli_", "aten::native_dropout", "aten::uniform_"),
    "activation": ("aten::relu", "aten::clamp_min", "aten::threshold_backward", "aten::gelu", "aten::silu"),
    "tanh, sigmoid": ("aten::tanh", "aten::sigmoid"),
    "optimiser": ("Optimizer", "aten::_fused_adam", "aten::_foreach", "aten::linalg", "aten::_fused"),
    "elementwise": ("aten::add", "aten::mul", "aten::sub", "aten::div", "aten::sum", "aten::neg", "aten::lerp"),
    "copies, casts": ("aten::copy_", "aten::clone", "aten::cat", "aten::fill_", "aten::zero_", "aten::_to_copy"),
    "embedding": ("aten::index", "aten::embedding", "aten::gather", "aten::scatter"),
}
SHAPES: dict[str, tuple[str, int]] = {
    # name: (model, tokens in a batch)
    "T": (MODELS["T"], 4096),
    "small": (
        "{kind: transformer, d_model: 128, d_ff: 512, num_heads: 4, encoder_layers: 3, decoder_layers: 3, "
        "dropout: 0.1}",
        1024,
    ),
    "rnn": (
        "{kind: attention_rnn, d_model: 256, d_embed: 256, encoder_layers: 1, decoder_layers: 1, dropout: 0.2}",
        2048,
    ),
}
WARM_UP, MEASURED, PROFILED = 10, 20, 10


def child(recipe: str, run: str, keys: list[str], profiled: bool) -> None:
    """Train in this process; print one JSON object with the processor seconds of an update and of each operation."""
    import time

    import torch

    from mtkit.cli import main as mtkit
    from mtkit.training.learner import Learner

    start_update, times, profiler = Learner.start_update, [], torch.profiler.profile()

    def timed(self: Learner, update: int, *args: Any, **kwargs: Any) -> float:
        if update == WARM_UP and profiled:
            profiler.start()
        if update == WARM_UP + PROFILED and profiled:
            profiler.stop()
        times.append((time.process_time(), time.perf_counter()))
        return start_update(self, update, *args, **kwargs)

    Learner.start_update = timed  # type: ignore[method-assign]
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(SystemExit):
        sys.argv = ["mtkit", "train", recipe, *keys, "--run-dir", run, "--fresh"]
        mtkit()
    if profiled:
        operations = {
            event.key: event.self_cpu_time_total / 1e6 / PROFILED for event in profiler.key_averages() if event.key
        }
        begin, end = times[WARM_UP - 1], times[WARM_UP + PROFILED - 1]
        print(json.dumps({"update": (end[1] - begin[1]) / PROFILED, "operations": operations}))
    else:
        begin, end = times[WARM_UP], times[-1]
        updates = len(times) - 1 - WARM_UP
        print(json.dumps({"processor": (end[0] - begin[0]) / updates, "clock": (end[1] - begin[1]) / updates}))


def kind_of(operation: str) -> str:
    """The kind of work of an operation of torch."""
    for kind, names in KINDS.items():
        if operation.startswith(names):
            return kind
    return "other"


def measure(name: str, precision: str, threads: int, *, profiled: bool) -> dict[str, Any]:
    """One training of a shape, in a process of its own."""
    model, batch_tokens = SHAPES[name]
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder, "recipe.yaml")
        updates = WARM_UP + (PROFILED if profiled else MEASURED) + 1
        values = {"model": model, "updates": updates, "report_every": updates}
        recipe.write_text(RECIPE.format(corpus=CORPORA / "multi30k", **values))
        keys = [f"training.precision={precision}", f"training.batch_tokens={batch_tokens}"]
        words = [sys.executable, __file__, "--child", str(recipe), str(Path(folder, "run")), *keys]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        done = subprocess.run([*words, *(["--profiled"] if profiled else [])], env=environment, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stderr.decode()[-3000:])
    result: dict[str, Any] = json.loads(done.stdout.decode().splitlines()[-1])
    return result


def main() -> None:
    """Print a table for each training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(SHAPES), metavar="NAME")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--precision", nargs="+", default=["float32", "bf16"])
    parser.add_argument("--operations", type=int, default=0, help="also list so many single operations")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--profiled", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        recipe, run, *keys = options.child
        child(recipe, run, keys, options.profiled)
        return
    for name in options.names:
        for precision in options.precision:
            for threads in options.threads:
                plain = measure(name, precision, threads, profiled=False)
                profile = measure(name, precision, threads, profiled=True)
                print(
                    f"{name}, {precision}, {threads} threads: update {plain['processor'] * 1e3:.1f} ms of processor "
                    f"time, {plain['clock'] * 1e3:.1f} by the clock; profiled {profile['update'] * 1e3:.1f}"
                )
                kinds: Counter[str] = Counter()
                for operation, seconds in profile["operations"].items():
                    kinds[kind_of(operation)] += seconds
                kinds["Python, between operations"] = profile["update"] - kinds.total()
                for kind, seconds in kinds.most_common():
                    print(f"  {kind:28} {seconds * 1e3:8.1f} ms {seconds / profile['update']:6.1%}")
                for operation, seconds in Counter(profile["operations"]).most_common(options.operations):
                    print(f"    {operation:60} {seconds * 1e3:8.2f} ms")


if __name__ == "__main__":
    main()
