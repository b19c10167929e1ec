"""OpenNMT-py and JoeyNMT in the benchmark of the first mile: settings, and a training of a limited processor time.

OpenNMT-py documents one Transformer (docs/source/FAQ.md: 512 wide, 6+6 layers, 4 batches of 4,096 tokens an update,
8,000 updates of warm-up), of which a few dozen updates fit into minutes of one core. It keeps its optimiser, schedule
and initial values here, and gets the sizes of mtkit's smallest model, batches of 1,024 tokens and a short warm-up.
JoeyNMT has a small Transformer for CPUs (configs/transformer_small.yaml: 64 wide, 3+3 layers, batches of 250 tokens),
taken as it is, except for subwords and the lengths of sentences. Both segment with sentencepiece, as documented.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece
import yaml
from joeynmt import JoeyNMT
from opennmt import OpenNMT

PIECES = 8000  # of a joint vocabulary
OPENNMT: dict[str, Any] = {
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "position_encoding": True,
    "hidden_size": 128,
    "word_vec_size": 128,
    "transformer_ff": 256,
    "heads": 4,
    "enc_layers": 4,
    "dec_layers": 4,
    "dropout": [0.1],
    "attention_dropout": [0.1],
    "share_vocab": True,
    "share_embeddings": True,
    "share_decoder_embeddings": True,
    "param_init": 0,
    "param_init_glorot": True,
    "optim": "adam",
    "adam_beta2": 0.998,
    "max_grad_norm": 0,
    "label_smoothing": 0.1,
    "decay_method": "noam",
    "learning_rate": 0.5,  # a peak of 2.2e-3; with 2, as documented for 512, it would be 8.8e-3
    "warmup_steps": 400,
    "batch_type": "tokens",
    "batch_size": 1024,
    "valid_batch_size": 64,
    "normalization": "tokens",
    "bucket_size": 32768,
    "num_workers": 0,
}
OPENNMT_VALIDATE_EVERY = 100  # updates
JOEYNMT_STACK: dict[str, Any] = {
    "type": "transformer",
    "num_layers": 3,
    "num_heads": 4,
    "embeddings": {"embedding_dim": 64, "scale": True},
    "hidden_size": 64,
    "ff_size": 128,
    "dropout": 0.1,
}
JOEYNMT_TRAINING: dict[str, Any] = {
    "optimizer": "adam",
    "adam_betas": [0.9, 0.98],
    "learning_rate": 0.001,
    "learning_rate_min": 1e-6,
    "learning_rate_factor": 0.5,
    "learning_rate_warmup": 1000,
    "scheduling": "noam",
    "weight_decay": 0.0,
    "batch_size": 250,
    "batch_type": "token",
    "normalization": "batch",
    "label_smoothing": 0.0,
    "early_stopping_metric": "ppl",
    "epochs": 1000,
    "validation_freq": 500,
    "logging_freq": 100,
    "keep_best_ckpts": 1,
    "print_valid_sents": [0],
    "overwrite": True,
    "shuffle": True,
}
MAX_PIECES = 200  # of a training sentence; JoeyNMT's file has 30 words
MAX_OUTPUT = 100


@dataclass(frozen=True)
class Trained:
    """Result of a training and of the translation of the test set.

    Attributes:
        hyps: a translation for each line.
        seconds: processor time of the training process.
        updates: of the checkpoint that was chosen on the validation set.
    """

    hyps: list[str]
    seconds: float
    updates: int


def limited(command: Sequence[object], log: Path, *, seconds: int | None = None, **options: Any) -> float:
    """Run a command with one thread until its end or a limit of processor time; return its processor seconds.

    Args:
        command: program and arguments.
        log: file for its output.
        seconds: the limit; None: no limit.
        options: of `subprocess.Popen`.

    Raises:
        SystemExit: the command failed before the limit.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))

    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            list(map(str, command)),
            **{"stdout": output, "stderr": output, "env": environment, "preexec_fn": limit, **options},
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, -signal.SIGXCPU):
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{log.read_text()[-3000:]}")
    return usage.ru_utime + usage.ru_stime


class Pieces:
    """A sentencepiece model of both sides, trained on the training text."""

    def __init__(self, texts: dict[str, Path], folder: Path) -> None:
        """Train the model, unless the folder has it.

        Args:
            texts: `train.src`, `train.tgt` and so on.
            folder: for the model and the list of its pieces.
        """
        self.model, self.vocab = folder / "pieces.model", folder / "pieces.txt"
        if not self.model.exists():
            sentencepiece.SentencePieceTrainer.train(
                input=[str(texts["train.src"]), str(texts["train.tgt"])],
                model_prefix=str(folder / "pieces"),
                vocab_size=PIECES,
                model_type="bpe",
                character_coverage=1.0,
                hard_vocab_limit=False,
                minloglevel=2,
            )
        self._processor = sentencepiece.SentencePieceProcessor(model_file=str(self.model))
        names = [self._processor.id_to_piece(i) for i in range(self._processor.get_piece_size())]
        names = [name for i, name in enumerate(names) if not self._processor.is_control(i) and name.strip()]
        self.vocab.write_text("".join(f"{name}\n" for name in names if name != "<unk>"), encoding="utf-8")

    def write(self, text: Path, output: Path) -> Path:
        """Write a text in pieces."""
        lines = text.read_text(encoding="utf-8").split("\n")[:-1]
        pieces = self._processor.encode(lines, out_type=str)
        output.write_text("".join(" ".join(line) + "\n" for line in pieces), encoding="utf-8")
        return output

    def without_pieces(self, text: Path) -> set[int]:
        """Return the numbers of the lines, from 0, that have no pieces, such as one of direction marks only."""
        lines = text.read_text(encoding="utf-8").split("\n")[:-1]
        return {number for number, pieces in enumerate(self._processor.encode(lines)) if not pieces}

    def decode(self, path: Path) -> list[str]:
        """Return the lines of a file of pieces as text."""
        return [self._processor.decode(line.split(" ")) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def train_opennmt(peer: OpenNMT, texts: dict[str, Path], *, seconds: int, seed: int) -> Trained:
    """Train OpenNMT-py and translate the test set with the checkpoint of the lowest validation perplexity."""
    folder = peer.folder
    pieces = Pieces(texts, folder)
    files = {name: str(pieces.write(path, folder / name)) for name, path in texts.items()}
    config = OPENNMT | {
        "src_vocab": str(pieces.vocab),
        "tgt_vocab": str(pieces.vocab),
        "data": {
            "train": {"path_src": files["train.src"], "path_tgt": files["train.tgt"], "transforms": ["filtertoolong"]},
            "valid": {"path_src": files["valid.src"], "path_tgt": files["valid.tgt"]},
        },
        "src_seq_length": MAX_PIECES,
        "tgt_seq_length": MAX_PIECES,
        "save_model": str(folder / "model"),
        "train_steps": 1_000_000,
        "valid_steps": OPENNMT_VALIDATE_EVERY,
        "save_checkpoint_steps": OPENNMT_VALIDATE_EVERY,
        "report_every": 50,
        "seed": seed,
    }
    (folder / "train.yaml").write_text(yaml.safe_dump(config))
    log = folder / "train.log"
    used = limited([peer.venv / "bin/onmt_train", "-config", folder / "train.yaml"], log, seconds=seconds)
    perplexities = map(float, re.findall(r"Validation perplexity: ([\d.e+]+)", log.read_text()))
    saved = [(value, OPENNMT_VALIDATE_EVERY * (i + 1)) for i, value in enumerate(perplexities)]
    step = min((value, step) for value, step in saved if (folder / f"model_step_{step}.pt").exists())[1]
    limited(
        [
            *(peer.venv / "bin/onmt_translate", "-model", folder / f"model_step_{step}.pt", "-src", files["test.src"]),
            *("-output", folder / "hyp", "-beam_size", 5, "-batch_size", 32, "-max_length", MAX_OUTPUT),
        ],
        folder / "translate.log",
    )
    return Trained(pieces.decode(folder / "hyp"), used, step)


def train_joeynmt(peer: JoeyNMT, texts: dict[str, Path], langs: tuple[str, str], *, seconds: int, seed: int) -> Trained:
    """Train JoeyNMT and translate the test set with its best checkpoint by validation perplexity.

    Its validation always translates, which takes most of the time without a cache; one token is allowed there. It ends
    at a sentence without pieces, so that such pairs are left out of the training text.
    """
    folder = peer.folder
    pieces = Pieces(texts, folder)
    skipped = pieces.without_pieces(texts["train.src"]) | pieces.without_pieces(texts["train.tgt"])
    for part in ("train", "valid", "test"):
        for side, lang in zip(("src", "tgt"), langs, strict=True):
            lines = texts[f"{part}.{side}"].read_bytes().splitlines(keepends=True)
            kept = (line for number, line in enumerate(lines) if part != "train" or number not in skipped)
            (folder / f"{part}.{lang}").write_bytes(b"".join(kept))
    config = _joeynmt_config(folder, pieces, langs, seed)
    (folder / "train.yaml").write_text(yaml.safe_dump(config))
    command = [peer.venv / "bin/python", "-m", "joeynmt"]
    used = limited(
        [*command, "train", "--skip-test", folder / "train.yaml"], folder / "log", seconds=seconds, cwd=folder
    )
    config["testing"] |= {"beam_size": 5, "beam_alpha": 1.0, "max_output_length": MAX_OUTPUT}
    (folder / "test.yaml").write_text(yaml.safe_dump(config))
    translate = [*command, "translate", folder / "test.yaml"]  # without -o, which fails after the translation
    with texts["test.src"].open() as source, (folder / "hyp").open("w") as hyp:
        limited(translate, folder / "translate.log", cwd=folder, stdin=source, stdout=hyp)
    best = re.findall(r"(\d+)\.ckpt", os.readlink(folder / "model/best.ckpt"))
    return Trained((folder / "hyp").read_text(encoding="utf-8").split("\n")[:-1], used, int(best[-1]))


def _joeynmt_config(folder: Path, pieces: Pieces, langs: tuple[str, str], seed: int) -> dict[str, Any]:
    side = {
        "level": "bpe",
        "max_length": MAX_PIECES,
        "voc_file": str(pieces.vocab),
        "tokenizer_type": "sentencepiece",
        "tokenizer_cfg": {"model_file": str(pieces.model)},
    }
    return {
        "name": "first-mile",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": seed,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "valid"),
            "dataset_type": "plain",
            "src": {"lang": langs[0], **side},
            "trg": {"lang": langs[1], **side},
        },
        "testing": {"beam_size": 1, "batch_size": 64, "batch_type": "sentence", "max_output_length": 1},
        "training": JOEYNMT_TRAINING,
        "model": {
            "initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": False,
            "tied_softmax": True,
            "encoder": JOEYNMT_STACK,
            "decoder": JOEYNMT_STACK,
        },
    }
