"""The models of the benchmarks that have a peer, trained and used by mtkit's own commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

CORPORA = Path(os.environ.get("MTKIT_CORPORA", "../shared/corpora")).absolute()
MODELS = {
    "T": "{kind: transformer, d_model: 256, d_ff: 1024, num_heads: 4, encoder_layers: 3, decoder_layers: 3, "
    "dropout: 0.1, attention_dropout: 0.1}",
    "rnn": "{kind: attention_rnn, decoder: input_feeding, d_model: 512, d_embed: 512, encoder_layers: 2, "
    "decoder_layers: 2, bidirectional_layers: 0, encoder_cell: {kind: lstm}, decoder_cell: {kind: lstm}, "
    "attention: {kind: general}, readout: {kind: tanh}, dropout: 0.1, tied_embeddings: none}",
}
RECIPE = """
name: model-t
defaults: fixed
corpus:
  root: {corpus}
  src_lang: en
  tgt_lang: de
  train: [{{src: train.en.gz, tgt: train.de.gz}}]
  valid: {{src: val.en.gz, tgt: val.de.gz}}
tokenizer: {{vocab_size: 8000}}
model: {model}
training:
  max_updates: {updates}
  validate_every: 1000000
  checkpoint_every: 1000000
  log_every: {report_every}
  batch_tokens: 4096
  validation: {{sentences: 0}}
"""


def mtkit(*arguments: object, threads: int) -> float:
    """Run one command; seconds from its start to its end."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "mtkit", *map(str, arguments)], env=environment, capture_output=True)
    if done.returncode:
        raise SystemExit(f"mtkit {arguments[0]} failed:\n{done.stderr.decode()[-3000:]}")
    return time.perf_counter() - begin


def write_recipe(folder: Path, *, updates: int, report_every: int, model: str = "T") -> Path:
    """The recipe of a training of so many updates."""
    recipe = folder / "recipe.yaml"
    values = {"model": MODELS[model], "updates": updates, "report_every": report_every}
    recipe.write_text(RECIPE.format(corpus=CORPORA / "multi30k", **values))
    return recipe


def train(
    folder: Path, *, updates: int, report_every: int, threads: int, precision: str, model: str = "T"
) -> list[float]:
    """Train from the beginning; source and target tokens per second of each report after the first."""
    recipe, run = write_recipe(folder, updates=updates, report_every=report_every, model=model), folder / "run"
    mtkit(
        *("train", recipe, f"training.precision={precision}", "--run-dir", run, "--fresh"),
        threads=threads,
    )
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().rstrip("\n").split("\n")]
    reports = [event for event in events if event["event"] == "train" and event["update"] > report_every]
    return [report["tokens_per_second"] for report in reports]


def translate(
    folder: Path, lines: Sequence[str], *, beam_size: int, length: int, compute_type: str, threads: int, workers: int
) -> float:
    """Seconds for raw lines, each decoded to exactly `length` pieces, loading of the model included.

    The threads are divided among the workers.
    """
    src = folder / "input.txt"
    src.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return mtkit(
        *("translate", folder / "run", src, "-o", folder / "output.txt", "--beam-size", beam_size),
        *("--compute-type", compute_type, "--workers", workers),
        *("--set", f"search.min_length={{factor: 0, offset: {length}}}"),
        *("--set", f"search.max_length={{factor: 0, offset: {length}}}"),
        *("--set", "search.retry_loops=false"),  # a model after so few updates runs into them in nearly every line
        threads=max(1, threads // workers),
    )
