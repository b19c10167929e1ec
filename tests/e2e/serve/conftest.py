"""Servers of small models."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from mtkit.models.transformer.config import TransformerConfig
from mtkit.native.library import native
from mtkit.text.tokenizer import TokenizerPair
from tests.toy.models import write_toy_model

ROOT = Path(__file__).parents[3]
CONFIG = TransformerConfig(d_model=32, d_ff=64, num_heads=4, encoder_layers=1, decoder_layers=1)


class Server:
    """A running `mtkit serve`.

    Attributes:
        client: speaks to it.
    """

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "mtkit", "serve", "--port", "0", *words]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        assert self.process.stderr is not None
        self.lines: list[str] = []
        for line in self.process.stderr:
            self.lines.append(line)
            if match := re.search(r"listening at http://(\S+):(\d+)", line):
                break
        else:
            raise AssertionError("".join(self.lines))
        self.host, self.port = match[1].strip("[]"), int(match[2])
        self.url = f"http://{match[1]}:{match[2]}"
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def translate(self, **fields: object) -> httpx.Response:
        return self.client.post("/translate", json={"source": "en", "target": "de", **fields})

    def stop(self, number: int = signal.SIGTERM, timeout: float = 60) -> tuple[int, str]:
        """The exit code, and what was written to stderr."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=timeout)
        return self.process.returncode, "".join(self.lines) + rest

    def children(self, parent: int | None = None) -> list[int]:
        """Processes of the server: those of models, or of one of them the workers."""
        path = Path(f"/proc/{parent or self.process.pid}/task/{parent or self.process.pid}/children")
        return [*map(int, path.read_text().split())]

    def workers(self) -> list[int]:
        """The processes that translate."""
        return [worker for model in self.children() for worker in self.children(model)]


@contextmanager
def running(*words: str) -> Iterator[Server]:
    server = Server(*words)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            try:
                server.stop()  # in order, so that its folder of documents goes with it
            except subprocess.TimeoutExpired:
                server.process.kill()
                raise


@pytest.fixture(scope="session")
def models(tokenizers: TokenizerPair, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of three directions, of which two make a route, and another model of the first direction."""
    if native().functions is None:
        pytest.skip(native().reason)
    root = tmp_path_factory.mktemp("models")
    directions = {"en-de": ("en", "de"), "de-fr": ("de", "fr"), "fr-en": ("fr", "en"), "special": ("en", "de")}
    return {
        name: write_toy_model(root / name, tokenizers, CONFIG, seed=seed, languages=languages)
        for seed, (name, languages) in enumerate(directions.items())
    }


@pytest.fixture(scope="session")
def server(models: dict[str, Path]) -> Iterator[Server]:
    """A server of all models, whose state tests must not change."""
    with running(*map(str, models.values()), "--workers", "1", "--max-characters", "20000") as server:
        yield server


@pytest.fixture(scope="session")
def translated(models: dict[str, Path]) -> Callable[..., list[str]]:
    """Translates lines by `mtkit translate`."""

    def translate(lines: list[str], *options: str, model: str = "en-de") -> list[str]:
        text = "".join(f"{line}\n" for line in lines)
        command = [sys.executable, "-m", "mtkit", "translate", str(models[model]), "-", *options]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ}
        )
        return done.stdout.split("\n")[:-1]

    return translate
