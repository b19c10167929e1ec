"""OpenNMT-py as the peer of a benchmark: its environment, its settings for our models, its own reports of speed.

Model T is the Transformer of 7.6 million parameters that all speed benchmarks share: width 256, 4 heads, 3 + 3 layers,
feed-forward 1024, dropout 0.1, label smoothing 0.1, one matrix for source, target and softmax, 8,000 joint pieces. The
recurrent one has two layers of 512 LSTM cells on either side, general attention, input feeding, embeddings of 512.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

REQUIREMENTS = [
    *("OpenNMT-py==3.5.1", "configargparse", "ctranslate2>=4,<5", "tensorboard", "flask", "waitress", "pyonmttok"),
    *("pyyaml", "sacrebleu", "rapidfuzz", "pyahocorasick", "fasttext-wheel", "spacy", "six"),
]  # all that it declares except torch<2.3, which is older than the one that we measure with
MODELS = {
    "T": {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "hidden_size": 256,
        "word_vec_size": 256,
        "enc_layers": 3,
        "dec_layers": 3,
        "heads": 4,
        "transformer_ff": 1024,
        "attention_dropout": [0.1],
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "position_encoding": True,
    },
    "rnn": {
        "encoder_type": "rnn",
        "decoder_type": "rnn",
        "rnn_type": "LSTM",
        "hidden_size": 512,
        "word_vec_size": 512,
        "enc_layers": 2,
        "dec_layers": 2,
        "global_attention": "general",
        "input_feed": 1,
    },
}
SETTINGS = {
    "dropout": [0.1],
    "label_smoothing": 0.1,
    "batch_type": "tokens",
    "batch_size": 4096,
    "bucket_size": 29000,
    "num_workers": 0,
    "normalization": "tokens",
    "optim": "adam",
    "learning_rate": 2,
    "decay_method": "noam",
    "warmup_steps": 4000,
}
SPEED = re.compile(r"Step +(\d+)/.*?([\d.]+)/([\d.]+) tok/s")


@dataclass(frozen=True)
class OpenNMT:
    """An installed OpenNMT-py and a folder for its files."""

    venv: Path
    folder: Path
    threads: int

    @classmethod
    def install(cls, venv: Path, folder: Path, threads: int) -> OpenNMT:
        """Make its virtual environment, with our version of torch, unless it is there."""
        if not (venv / "bin/onmt_train").exists():
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            pip = [venv / "bin/pip", "install", "--quiet"]
            subprocess.run([*pip, f"torch=={version('torch').partition('+')[0]}"], check=True)
            subprocess.run([*pip, "--no-deps", REQUIREMENTS[0]], check=True)
            subprocess.run([*pip, *REQUIREMENTS[1:]], check=True)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(venv, folder, threads)

    def train(
        self, src: Path, tgt: Path, vocab: Path, *, steps: int, report_every: int, model: str = "T"
    ) -> list[float]:
        """Train on files of pieces; source and target tokens per second of each report after the first."""
        import yaml

        config: dict[str, object] = {
            **SETTINGS,
            **MODELS[model],
            "save_data": str(self.folder / "samples"),
            "src_vocab": str(vocab),
            "tgt_vocab": str(vocab),
            "share_vocab": True,
            "overwrite": True,
            "data": {"train": {"path_src": str(src), "path_tgt": str(tgt)}},
            "save_model": str(self.folder / "model"),
            "train_steps": steps,
            "save_checkpoint_steps": steps,
            "report_every": report_every,
            "seed": 1,
        }
        (self.folder / "train.yaml").write_text(yaml.safe_dump(config))
        log = self._run("onmt_train", "-config", self.folder / "train.yaml")
        return [float(src) + float(tgt) for step, src, tgt in SPEED.findall(log) if int(step) > report_every]

    def translate(self, pieces: Sequence[str], *, steps: int, beam_size: int, length: int, batch_size: int) -> float:
        """Seconds for lines of pieces, each decoded to exactly `length` pieces, loading of the model included."""
        src = self.folder / "input"
        src.write_text("".join(f"{line}\n" for line in pieces), encoding="utf-8")
        begin = time.perf_counter()
        self._run(
            *("onmt_translate", "-model", self.folder / f"model_step_{steps}.pt", "-src", src),
            *("-output", self.folder / "output", "-beam_size", beam_size, "-batch_size", batch_size),
            *("-min_length", length, "-max_length", length),
        )
        return time.perf_counter() - begin

    def _run(self, command: str, *arguments: object) -> str:
        threads = str(self.threads)
        environment = os.environ | {
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # without it, it cannot read its own checkpoints
        }
        done = subprocess.run(
            [self.venv / "bin" / command, *map(str, arguments)], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"{command} failed:\n{done.stderr[-3000:]}")
        return done.stdout + done.stderr
