"""JoeyNMT as the peer of a benchmark: its environment, its settings for our models, its own reports."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

REQUIREMENTS = [
    *("sentencepiece==0.2.0", "sacrebleu>=2", "sacremoses", "subword-nmt", "tensorboard", "datasets", "packaging"),
    *("pyyaml", "pandas", "matplotlib", "seaborn", "importlib_metadata", "future", "pillow", "setuptools<81", "six"),
    *("wrapt", "plotly"),
]  # what it imports; all that it declares with its bounds cannot be installed beside a torch of today
STEP = re.compile(r"^(\S+ \S+) .*Epoch +\d+, Step: +(\d+),", re.MULTILINE)
BLEU = re.compile(r"Evaluation result \(greedy\):? .*?bleu: +([\d.]+)")


class Progress(NamedTuple):
    """What a training was worth when it was looked at."""

    update: int
    bleu: float


@dataclass(frozen=True)
class Shape:
    """A Transformer with as many layers on either side, and how it is trained."""

    d_model: int
    d_ff: int
    num_heads: int
    layers: int
    batch_tokens: int
    learning_rate: float
    warmup: int
    dropout: float = 0.1


@dataclass(frozen=True)
class JoeyNMT:
    """An installed JoeyNMT and a folder for its files."""

    venv: Path
    folder: Path
    threads: int

    @classmethod
    def install(cls, venv: Path, folder: Path, threads: int) -> JoeyNMT:
        """Make its virtual environment, with our version of torch, unless it is there."""
        if not any(venv.glob("lib/*/site-packages/joeynmt")):
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            pip = [venv / "bin/pip", "install", "--quiet"]
            subprocess.run([*pip, f"torch=={version('torch').partition('+')[0]}"], check=True)
            subprocess.run([*pip, "--no-deps", "joeynmt==2.3.0"], check=True)
            subprocess.run([*pip, *REQUIREMENTS], check=True)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(venv, folder, threads)

    def train(
        self, texts: dict[str, Path], tokenizer: Path, vocab: Path, shape: Shape, *, updates: int, every: int
    ) -> tuple[list[Progress], float]:
        """Train on raw text; BLEU of greedy translations by update, and the median seconds of an update.

        Args:
            texts: `train` and `dev`, each without the language at its end.
            tokenizer: a sentencepiece model.
            vocab: its pieces, one a line.
            shape: the model and its training.
            updates: when it ends.
            every: updates between two evaluations.
        """
        import yaml

        report_every = every // 5
        config = _config(self.folder, texts, tokenizer, vocab, shape)
        config["training"] |= {"updates": updates, "validation_freq": every, "logging_freq": report_every}
        (self.folder / "train.yaml").write_text(yaml.safe_dump(config))
        log = self._run("train", "--skip-test", self.folder / "train.yaml")
        scores = [float(score) for score in BLEU.findall(log)]
        progress = [Progress(every * (place + 1), score) for place, score in enumerate(scores)]
        return progress, _seconds_an_update(log, every)

    def _run(self, *arguments: object) -> str:
        threads = str(self.threads)
        done = subprocess.run(
            [self.venv / "bin/python", "-m", "joeynmt", *map(str, arguments)],
            cwd=self.folder,
            env=os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"joeynmt {arguments[0]} failed:\n{done.stderr[-3000:]}")
        return done.stdout + done.stderr


def _seconds_an_update(log: str, every: int) -> float:
    """The median over reports, those left out before which it evaluated."""
    reports = [(datetime.fromisoformat(when.replace(",", ".")), int(step)) for when, step in STEP.findall(log)]
    rates = [
        (later - earlier).total_seconds() / (step - before)
        for (earlier, before), (later, step) in itertools.pairwise(reports)
        if before % every
    ]
    return sorted(rates)[len(rates) // 2]


def _config(folder: Path, texts: dict[str, Path], tokenizer: Path, vocab: Path, shape: Shape) -> dict[str, Any]:
    side = {
        "level": "bpe",
        "max_length": 256,
        "voc_file": str(vocab),
        "tokenizer_type": "sentencepiece",
        "tokenizer_cfg": {"model_file": str(tokenizer)},
    }
    stack = {
        "type": "transformer",
        "num_layers": shape.layers,
        "num_heads": shape.num_heads,
        "embeddings": {"embedding_dim": shape.d_model, "scale": True, "dropout": shape.dropout},
        "hidden_size": shape.d_model,
        "ff_size": shape.d_ff,
        "dropout": shape.dropout,
        "layer_norm": "pre",
    }
    return {
        "name": "peer",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": 1,
        "data": {
            "train": str(texts["train"]),
            "dev": str(texts["dev"]),
            "dataset_type": "plain",
            "src": {"lang": "en", **side},
            "trg": {"lang": "de", **side},
        },
        "testing": {
            "beam_size": 1,
            "batch_size": 64,
            "batch_type": "sentence",
            "max_output_length": 60,
            "eval_metrics": ["bleu"],
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": shape.learning_rate,
            "learning_rate_min": 1e-9,
            "learning_rate_warmup": shape.warmup,
            "scheduling": "warmupinversesquareroot",
            "normalization": "tokens",
            "label_smoothing": 0.1,
            "clip_grad_norm": 1.0,
            "batch_size": shape.batch_tokens,
            "batch_type": "token",
            "epochs": 1000,
            "early_stopping_metric": "bleu",
            "overwrite": True,
            "shuffle": True,
            "print_valid_sents": [0],
            "keep_best_ckpts": 1,
        },
        "model": {
            "initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack,
            "decoder": stack,
        },
    }
