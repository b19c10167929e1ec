"""Signals at random times end every command with one sentence and exit code 128 + number, and nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mtkit.signals import HANDLED
from tests.toy.runs import RECIPE, sentences, write_pair
from tests.toy.sampling import sampled, thinned

STUDY = """\
name: study
base: toy.yaml
seeds: [1]
variants:
  one: {training: {max_updates: 3}}
  two: {training: {max_updates: 4}}
"""
COMMANDS = {
    "run": "run toy.yaml --run-dir new",
    "train": "train toy.yaml --run-dir new",
    "preprocess": "preprocess toy.yaml --run-dir new",
    "train-bpe": "train-bpe train.en --vocab-size 105 --model-type word -o spm",
    "dry run": "run toy.yaml --dry-run",
    "translate": "translate whole test.en -o out --batch-tokens 16",
    "translate by workers": "translate whole test.en --workers 2",
    "score": "score whole --src test.en --ref test.de",
    "evaluate": "evaluate test.de --ref test.de",
    "evaluate a run": "evaluate --run whole",
    "average": "average whole/checkpoints/update-00000030 -o averaged",
    "bench": "bench whole test.en --compute-type float32 --beam-size 1",
    "checkpoints": "checkpoints whole",
    "describe": "describe toy.yaml",
    "export": "export whole --to ctranslate2 -o exported",
    "keys": "keys",
    "study": "study study.yaml",
    "watch": "watch whole",
}


def start(words: str, folder: Path) -> subprocess.Popen[str]:
    """Start a command in its own process group, with the default reaction to signals."""
    return subprocess.Popen(
        [sys.executable, "-m", "mtkit", *words.split()],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in HANDLED],
    )


def finish(words: str, folder: Path) -> None:
    process = start(words, folder)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err


def wait_for_handlers(process: subprocess.Popen[str]) -> None:
    """Wait until the program handles signals: before its first line Python answers them."""
    last = 1 << (HANDLED[-1] - 1)
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        if int(status.partition("SigCgt:")[2].split()[0], 16) & last:
            return


def wait_for_group(process: subprocess.Popen[str]) -> None:
    """Wait until no process of the group is left, such as a worker."""
    for _ in range(500):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    raise AssertionError("worker processes were left behind")


def interrupt(words: str, folder: Path, number: int, delay: float, *, group: bool = False) -> int:
    """Exit code of a command that receives a signal after `delay` seconds, checked with what it wrote."""
    process = start(words, folder)
    wait_for_handlers(process)
    time.sleep(delay)
    if process.poll() is None:
        (os.killpg if group else os.kill)(process.pid, number)
    _, err = process.communicate(timeout=120)
    wait_for_group(process)
    assert "Traceback" not in err, err
    assert process.returncode in (0, 128 + number), (process.returncode, err)
    if process.returncode:
        assert err.count("mtkit: error: ") == 1, err
        assert err.splitlines()[-1].startswith("mtkit: error: interrupted"), err
    return process.returncode


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, recipes and the finished run `whole`."""
    folder = tmp_path_factory.mktemp("signals")
    for name, count, seed in (("train", 300, 0), ("valid", 20, 1), ("test", 40, 2)):
        write_pair(folder, name, sentences(count, seed))
    (folder / "toy.yaml").write_text(
        RECIPE.replace("max_updates: 4", "max_updates: 40").replace("_every: 2", "_every: 10")
        + "model: {kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1}\n"
    )
    (folder / "study.yaml").write_text(STUDY)
    finish("run toy.yaml --run-dir whole", folder)
    return folder


def copy_inputs(folder: Path, target: Path) -> None:
    for path in folder.iterdir():
        (target / path.name).symlink_to(path)


def check(folder: Path, target: Path, name: str, rng: random.Random) -> None:
    """Interrupt a command at a random time, and finish it; a training ends with the same bits."""
    copy_inputs(folder, target)
    number, words = rng.choice(HANDLED), COMMANDS[name]
    interrupt(words, target, number, rng.uniform(0, 4) ** 2 / 4, group=rng.random() < 0.3)
    finish(words, target)
    if name in ("run", "train"):
        assert weights(target / "new") == weights(folder / "whole")


def weights(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


@pytest.mark.whole
@pytest.mark.parametrize("number", thinned(HANDLED, 3))
def test_a_signal_at_the_start(folder: Path, number: int) -> None:
    assert interrupt("run toy.yaml --run-dir start", folder, number, 0.0) == 128 + number


@pytest.mark.whole
@pytest.mark.parametrize("repetition", range(sampled(2, least=1)))
def test_a_draw_of_commands(folder: Path, tmp_path: Path, repetition: int) -> None:
    rng = random.Random(f"draw {repetition}")
    name = rng.choice(sorted(COMMANDS))
    print(f"command: {name}")  # shown if the test fails
    check(folder, tmp_path, name, rng)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_all_commands(folder: Path, tmp_path: Path, name: str, seed: int) -> None:
    check(folder, tmp_path, name, random.Random(seed))
