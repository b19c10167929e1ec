"""Training on a GPU: what share of its matrix rate an update reaches, and how long Multi30k takes to its score.

    python tools/benchmarks/gpu.py [--recipe wmt14-transformer-base] [--batch-tokens 32768] [--updates 60]
                                   [--multi30k FOLDER]

The rate of the card is measured, not looked up: products of two matrices [8192, 8192] in bf16. The operations of an
update are those of its products, forward and backward, as torch counts them; made-up sentences of 20 to 40 tokens
without padding, so that the shapes change from update to update. With --multi30k, the folder that `mtkit fetch
multi30k` fills, the recipe multi30k-transformer is then run to its end, in bf16, once as written and once compiled.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from mtkit.corpus.order.batch import Batch, dummy_batch
from mtkit.pipeline.builders import build_architecture, build_objective
from mtkit.recipe.recipe import load_recipe
from mtkit.recipe.sections import Recipe
from mtkit.text.vocab import Vocab
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.learner import Learner, build_learner
from mtkit.training.numerics import compile_model

SIDE = 8192  # of the matrices: large enough that the card is busy, small enough for any
LENGTHS = range(20, 41)  # tokens of a sentence
WARM = 10  # updates before the clock starts; compiled code is made in the first of them


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", default="wmt14-transformer-base")
    parser.add_argument("--batch-tokens", type=int, default=32768)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--multi30k", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("there is no GPU here that torch can use, and this measures one")
    rate = matrix_rate()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: {rate / 1e12:.0f} TFLOP/s of products in bf16")
    recipe = load_recipe(options.recipe, ["training.precision=bf16", f"training.batch_tokens={options.batch_tokens}"])
    for is_compiled in (False, True):
        report(recipe, is_compiled, options.updates, rate)
    for is_compiled in (False, True) if options.multi30k else ():
        run_multi30k(options.multi30k, is_compiled)


def matrix_rate() -> float:
    """Operations a second, the best of five rounds."""
    a, b = (torch.randn(SIDE, SIDE, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    rounds = [seconds(lambda: [a @ b for _ in range(20)]) for _ in range(6)]
    return 20 * 2 * SIDE**3 / min(rounds[1:])


def seconds(work: Callable[[], object]) -> float:
    """Until the card has done it."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def make_learner(recipe: Recipe) -> Learner:
    """The recipe's model and optimiser; its objective must draw no translations."""
    size = recipe.tokenizer.vocab_size
    pieces = TargetVocabIds(size=size, first_text_id=4, end_text_id=size, pad=0, unk=1, bos=2, eos=3)
    objective = build_objective(recipe.training, pieces, None)
    return build_learner(build_architecture(recipe, (size, size)), objective, config=recipe.training)


def batches(recipe: Recipe, count: int) -> list[Batch]:
    """One for each length in turn."""
    vocab = Vocab(size=recipe.tokenizer.vocab_size, pad=0, unk=1, bos=2, eos=3)
    lengths = [LENGTHS[number * 8 % len(LENGTHS)] for number in range(count)]
    return [dummy_batch(recipe.training.resolved_batch_tokens // length, length, vocab, vocab) for length in lengths]


def update(learner: Learner, batch: Batch, number: int) -> None:
    """As training makes one, without looking at the loss."""
    learner.start_update(number)
    for losses in learner.losses([batch], number):
        learner.backward(losses.sum / losses.tokens)
    learner.reduce_and_clip_gradients()
    learner.step(number)


def report(recipe: Recipe, is_compiled: bool, updates: int, rate: float) -> None:
    """Tokens a second, operations a second, and of how many the card is capable."""
    learner, drawn = make_learner(recipe), batches(recipe, WARM + updates)
    learner.model.train()
    counted = FlopCounterMode(display=False)
    with counted:
        update(learner, drawn[WARM], 1)
    each = counted.get_total_flops() / int(drawn[WARM].loss_mask.sum())  # of a target token
    if is_compiled:
        compile_model(learner.model)
    numbered = enumerate(drawn, 2)
    making = seconds(lambda: [update(learner, batch, number) for number, batch in islice(numbered, WARM)])
    took = seconds(lambda: [update(learner, batch, number) for number, batch in numbered])
    tokens = sum(int(batch.loss_mask.sum()) for batch in drawn[WARM:])
    print(
        f"{recipe.name}, {said(is_compiled)}: {2 * tokens / took:,.0f} source and target tokens/s, "
        f"{each * tokens / took / 1e12:.0f} TFLOP/s, {each * tokens / took / rate:.0%} of the card's rate; "
        f"the first {WARM} updates took {making:.0f} s, memory {torch.cuda.max_memory_allocated() / 1e9:.1f} GB"
    )


def said(is_compiled: bool) -> str:
    """For a person."""
    return "compiled" if is_compiled else "as written"


def run_multi30k(corpus: Path, is_compiled: bool) -> None:
    """The whole recipe by the command itself."""
    with tempfile.TemporaryDirectory() as folder:
        keys = [f"corpus.root={corpus}", "training.precision=bf16", f"training.compile={str(is_compiled).lower()}"]
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "mtkit", "run", "multi30k-transformer", *keys, "--run-dir", folder], check=True
        )
        took = time.perf_counter() - begin
        found = json.loads((Path(folder) / "report.json").read_text())
    score = found["test"]["flickr2016"]["bleu"]
    print(
        f"multi30k-transformer, {said(is_compiled)}: BLEU {score:.1f} on test_2016_flickr, "
        f"{found['train']['seconds']:.0f} s of updates, {took:.0f} s in all"
    )


if __name__ == "__main__":
    main()
