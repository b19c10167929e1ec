"""Processes side by side give what one gives."""

from __future__ import annotations

import functools
import os
import signal
import time
from pathlib import Path

import pytest
import torch

from mtkit.cli.memory import is_used_up
from mtkit.errors import DataError, ReadWriteError
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.text.tokenizer import TokenizerConfig, TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.translate.constraints import ConstrainedLine
from mtkit.translate.engines.interface import OwnEngine
from mtkit.translate.translation import Translation
from mtkit.translate.translator import Translator
from mtkit.translate.workers import BYTES_EACH, WorkerPool, workers_for

LINES = [f"the {a} sees {b} ." for a in ("dog", "cat", "man") for b in ("a house", "it", "", "red trees")]


def make(folder: Path) -> Translator:
    tokenizers = TokenizerPair.load(folder)
    torch.manual_seed(0)
    config = TransformerConfig(d_model=8, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1)
    model = config.build(tokenizers.src.vocab.size, tokenizers.tgt.vocab.size).eval()
    search = SearchConfig(beam_size=2, max_length=MaxLength(a=1.0, b=2))
    return Translator(OwnEngine([model], compute_type="float32"), tokenizers, search)


def fail(folder: Path) -> Translator:
    raise DataError(f"{folder}: damaged")


def use_memory_up(folder: Path) -> Translator:
    torch.empty(1 << 60)
    raise AssertionError


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    (path / "text").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    train_pair([path / "text"], [path / "text"], path, TokenizerConfig(vocab_size=140))
    return path


def test_workers_give_what_one_translator_gives(folder):
    lines = [*LINES, "", " ", *LINES[::-1]]
    with WorkerPool(functools.partial(make, folder), 2, flush_every=3) as pool:
        found = list(pool.translate(lines))
        again = list(pool.translate(iter(lines)))
        assert list(pool.translate([])) == []

        def broken():
            yield "the dog"
            raise DataError("text:2: bad")

        stream = pool.translate(broken())
        assert next(stream).line == 1
        with pytest.raises(DataError, match="text:2"):
            next(stream)
        for process in pool._processes:
            os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(ReadWriteError, match="code -9"):
            list(pool.translate(LINES))
    truth = list(make(folder).translate(lines))
    assert [(t.line, t.hyp) for t in found] == [(t.line, t.hyp) for t in again] == [(t.line, t.hyp) for t in truth]


def test_what_a_worker_raises_is_raised(folder):
    with WorkerPool(functools.partial(fail, folder), 1) as pool, pytest.raises(DataError, match="damaged"):
        list(pool.translate(LINES))


def test_what_was_translated_before_a_failure_is_given(folder):
    lines = [*LINES, ConstrainedLine(text="a", include=("red dog",), exclude=("dog",)), "a"]
    with WorkerPool(functools.partial(make, folder), 2, flush_every=5) as pool:
        stream = pool.translate(lines)
        assert [next(stream).line for _ in LINES] == list(range(1, len(LINES) + 1))
        with pytest.raises(DataError, match=f"line {len(LINES) + 1}: 'red dog' is demanded"):
            next(stream)


class Scripted:
    """Fails with "bad", which lets "slow" go on; all else is translated at once."""

    def __init__(self, folder: Path) -> None:
        self.failed = folder / "failed"

    def translate(self, lines, *, first):
        for number, line in enumerate(lines, start=first):
            if line == "bad":
                self.failed.touch()
                raise DataError("bad")
            while line == "slow" and not self.failed.exists():
                time.sleep(0.01)
            time.sleep(0.5 * (line == "slow"))
            yield Translation(line=number, hyp=line)


def test_after_a_failure_no_more_is_read_and_what_came_before_is_given(tmp_path):
    read = []
    lines = (read.append(line) or line for line in ["slow", "bad", *map(str, range(20))])
    with WorkerPool(functools.partial(Scripted, tmp_path), 2, flush_every=1) as pool:
        stream = pool.translate(lines)
        assert next(stream).hyp == "slow"
        with pytest.raises(DataError, match="bad"):
            next(stream)
    assert read == ["slow", "bad"]


def test_memory_that_is_used_up_in_a_worker_is_told_as_here(folder):
    with pytest.raises(RuntimeError) as here:
        use_memory_up(folder)
    with WorkerPool(functools.partial(use_memory_up, folder), 1) as pool, pytest.raises(RuntimeError) as there:
        list(pool.translate(LINES))
    assert str(there.value) == str(here.value)
    assert is_used_up(there.value)
    assert "in use_memory_up" in there.value.__notes__[0]


@pytest.mark.parametrize(("size", "cores", "expected"), [(2.9, 8, 2), (0.5, 8, 1), (100, 8, 8), (100, 1, 1)])
def test_a_long_text_gets_the_workers_that_it_pays_for(tmp_path, monkeypatch, size, cores, expected) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    text = tmp_path / "text"
    with text.open("wb") as file:
        file.truncate(int(size * BYTES_EACH))
    assert workers_for(text, None) == workers_for(text, "cpu") == expected
    assert workers_for(text, "cuda:0") == workers_for(Path("-"), None) == 1
