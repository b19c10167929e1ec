"""Laboratory: tiny corpora and recipes, finished runs to attack copies of, and comparison with an undisturbed run."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.robustness.harness.client import ROOT, ForkServer, Outcome
from tools.robustness.harness.file_operations import operations

RECIPE = """\
name: tiny
defaults: fixed
corpus:
  root: .
  src_lang: en
  tgt_lang: de
  train: [{src: train.en, tgt: train.de}]
  valid: {src: valid.en, tgt: valid.de}
  test:
    tiny: {src: test.en, tgt: test.de}
tokenizer: {model_type: char, vocab_size: 140}
model: {kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1, dropout: 0.1}
training:
  max_updates: 6
  validate_every: 3
  checkpoint_every: 2
  log_every: 1
  batch_tokens: 512
  precision: float32
  schedule: {kind: constant}
  optimiser: {kind: adam, learning_rate: 0.02}
  ema: {decay: 0.5, update_every: 1}
  validation: {sentences: 2}
search: {beam_size: 2, max_length: {factor: 0.0, offset: 12}}
evaluation: {metrics: [bleu, chrf]}
"""
SIZES = {"train": 40, "valid": 4, "test": 4, "other": 40}  # lines of the embedded corpus
SOURCES = {"other": "train"}
SETUP_LIMIT = 120.0  # seconds for a command that prepares an experiment
TIMES = {
    "seconds", "processor_seconds", "tokens_per_second", "time", "seconds_per_update", "seconds_left", "memory_gb",
    "sha256",
}  # fmt: skip
# the lock has no content of its own; a checkpoint's state holds times, and the manifest its hash
UNCOMPARED = (".lock", "/state.json", "-00000006/manifest.json", "-00000004/manifest.json")
LOGGED_EVENTS = ("train", "validation")  # an interruption saves one more checkpoint
LOGGED = ("event", "update", "loss", "grad_norm", "learning_rate", "nll", "bleu", "sample")
SHARP = "tools.robustness.harness.sharp_model:write_sharp_model"
# checkpoints that an interruption saved, and what was set apart since it was damaged
KEPT = ("checkpoints/update-", "checkpoints/damaged-", "damaged-")
RUN = ("run", "tiny.yaml", "--run-dir", "run")


@dataclass(frozen=True)
class Lab:
    """A folder with the material of all experiments, made when it is first needed, and a fork server.

    Attributes:
        folder: receives `text` (corpus and recipe), `golden` (runs) and one folder for each trial.
        limit: seconds after which a command counts as hanging.
    """

    folder: Path
    server: ForkServer
    limit: float

    @cached_property
    def text(self) -> Path:
        """Folder with the tiny corpus, `tiny.yaml` and `input`, a text to translate."""
        folder = self.folder / "text"
        folder.mkdir(parents=True, exist_ok=True)
        for name, count in SIZES.items():
            for language in ("en", "de"):
                lines = _lines(ROOT / "data" / f"{SOURCES.get(name, name)}.{language}")
                lines = lines[-count:] if name == "other" else lines[:count]
                (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))
        (folder / "tiny.yaml").write_text(RECIPE)
        (folder / "input").write_text("".join(f"{line}\n" for line in [*_lines(folder / "test.en"), "", "a dog"]))
        return folder

    @cached_property
    def golden(self) -> Path:
        """Folder of an undisturbed run: `run`."""
        return self._make("golden", RUN)

    @cached_property
    def other(self) -> Path:
        """Folder of a run of the same sizes with other weights and a tokenizer of other text: `run`."""
        return self._make("other", (*RUN, "training.seed=2", "corpus.train.0={src: other.en, tgt: other.de}"))

    @cached_property
    def interrupted(self) -> Path:
        """Folder of a run that was killed after update 4: `run`."""
        listing = self.listing(RUN)
        saves = [n for n, (name, subject) in enumerate(listing, 1) if name == "rename" and "update-00000006" in subject]
        folder = self.folder / "interrupted"
        if not folder.exists():
            self._texts(folder)
            self.run(RUN, folder, limit=SETUP_LIMIT, attack={"kind": "kill", "operation": saves[0]})
        return folder

    @cached_property
    def golden_files(self) -> dict[str, str]:
        """Digests of the undisturbed run."""
        return digests(self.golden / "run")

    @cached_property
    def translation(self) -> bytes:
        """Translation of `input` by the undisturbed model."""
        outcome = self.run(("translate", "golden/run/model", "text/input"), self.folder, limit=SETUP_LIMIT)
        assert outcome.status == 0, outcome.err
        return outcome.out

    @cached_property
    def sharp(self) -> Path:
        """Folder with a model that translates each line differently: `run`, a model folder."""
        folder = self.folder / "sharp"
        if not folder.exists():
            self._texts(folder)
            words = (str(self.golden / "run" / "model"), str(folder / "run"))
            outcome = self.run(words, folder, limit=SETUP_LIMIT, function=SHARP)
            assert outcome.status == 0, outcome.err
        return folder

    @cached_property
    def sharp_translation(self) -> bytes:
        """Translation of `input` by the sharp model."""
        outcome = self.run(("translate", "run", "input"), self.sharp, limit=SETUP_LIMIT)
        assert outcome.status == 0, outcome.err
        assert len(set(outcome.out.split(b"\n"))) > SIZES["test"]
        return outcome.out

    @cached_property
    def seconds(self) -> float:
        """Duration of an undisturbed run."""
        with self.trial_folder("timed") as folder:
            return self.run(RUN, folder, limit=SETUP_LIMIT).seconds

    def listing(
        self, words: tuple[str, ...], prepare: Callable[[Path], None] | None = None, **fields: Any
    ) -> list[tuple[str, str]]:
        """The file operations of an undisturbed command in a trial folder."""
        with self.trial_folder("listing") as folder:
            if prepare:
                prepare(folder)
            file = folder.with_suffix(".operations")
            file.unlink(missing_ok=True)
            outcome = self.run(words, folder, limit=SETUP_LIMIT, attack={"kind": "list", "file": str(file)}, **fields)
            assert outcome.status == 0, outcome.err
            return operations(file)

    def run(self, words: tuple[str, ...], folder: Path, *, limit: float | None = None, **fields: Any) -> Outcome:
        """Run a command line in a folder."""
        return self.server.run(words, folder, limit=self.limit if limit is None else limit, **fields)

    @contextmanager
    def trial_folder(self, name: str = "trial", *, copy: Path | None = None) -> Iterator[Path]:
        """A new folder with the texts, and with the run of `copy`; removed afterwards.

        All trials have the same path, since a run folder holds absolute paths of its corpus.
        """
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        self._texts(folder)
        if copy is not None:
            shutil.copytree(copy / "run", folder / "run", symlinks=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _texts(self, folder: Path) -> None:
        """Links, so that the absolute paths in saved recipes are the same in every folder."""
        folder.mkdir(parents=True)
        recipe = RECIPE.replace("root: .", f"root: {self.text}")
        for name in ("input", *(f"{name}.{language}" for name in SIZES for language in ("en", "de"))):
            (folder / name).symlink_to(self.text / name)
        (folder / "tiny.yaml").write_text(recipe)

    def _make(self, name: str, words: tuple[str, ...]) -> Path:
        folder = self.folder / name
        if not (folder / "finished").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            self._texts(folder)
            outcome = self.run(words, folder, limit=SETUP_LIMIT)
            assert outcome.status == 0, outcome.err
            (folder / "finished").touch()
        return folder


def _lines(path: Path) -> list[str]:
    return path.read_text().rstrip("\n").split("\n")


def digests(run: Path) -> dict[str, str]:
    """What a run folder holds, apart from times: the SHA-256 of each file, and the numbers of reports and log."""
    files = {str(path.relative_to(run)): path for path in sorted(run.rglob("*")) if path.is_file()}
    return {name: _digest(path) for name, path in files.items() if not name.endswith(UNCOMPARED)}


def _digest(path: Path) -> str:
    content = path.read_bytes()
    if path.name == "report.json":
        content = json.dumps(_without_times(json.loads(content))).encode()
    elif path.name == "config.json" and "files" in (fields := json.loads(content)):  # not CTranslate2's
        content = json.dumps({**fields, "files": {**fields["files"], "README.md": None}, "sha256": None}).encode()
    elif path.name == "log.jsonl":
        records = [json.loads(line) for line in content.split(b"\n") if line]
        kept = [[record.get(key) for key in LOGGED] for record in records if record["event"] in LOGGED_EVENTS]
        content = json.dumps(kept).encode()
    elif path.name == "report.html":  # its first table has the times of the runs
        content = content.partition(b"</table>")[2]
    elif path.name == "README.md":
        content = b"\n".join(line for line in content.split(b"\n") if b"second" not in line)
    return hashlib.sha256(content).hexdigest()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key not in TIMES}
    return value


def process_free(path: str) -> str:
    """The name of a file, without the process id in a temporary name."""
    return re.sub(r"\.\d+\.tmp$", ".tmp", Path(path).name)


def difference(found: dict[str, str], expected: dict[str, str]) -> str | None:
    """A sentence about the first difference between two run folders, or None."""
    for name, digest in expected.items():
        if name not in found:
            return f"lost: {name}"
        if found[name] != digest:
            return f"other content: {name}"
    left = sorted(name for name in found.keys() - expected.keys() if not name.startswith(KEPT))
    return f"left behind: {', '.join(left)}" if left else None
