"""Worker processes give the translations of a single process."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mtkit.errors import DataError, ReadWriteError, is_oom
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.translate import workers
from mtkit.translate.lines import ConstrainedLine
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.translation import Translation
from mtkit.translate.translator import Translator
from mtkit.translate.workers import BYTES_PER_WORKER, WorkerPool, auto_num_workers

LINES = [f"the {a} sees {b} ." for a in ("dog", "cat", "man") for b in ("a house", "it", "", "red trees")]


def load(folder: Path) -> Translator:
    tokenizers = TokenizerPair.load(folder)
    torch.manual_seed(0)
    config = TransformerConfig(d_model=8, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1)
    model = config.build(tokenizers.src.vocab.size, tokenizers.tgt.vocab.size).eval()
    search = SearchConfig(beam_size=2, max_length=MaxLength(factor=1.0, offset=2))
    return Translator(ModelEngine([model], compute_type="float32"), tokenizers, search)


def fail(folder: Path) -> Translator:
    raise DataError(f"{folder}: damaged")


def run_out_of_memory(folder: Path) -> Translator:
    torch.empty(1 << 60)
    raise AssertionError


COPIES, NEW = pytest.param(True, id="copies"), pytest.param(False, id="new processes", marks=pytest.mark.slow)


@pytest.fixture(params=[COPIES, NEW])
def start_method(request, monkeypatch) -> None:
    if request.param and sys.platform != "linux":
        pytest.skip("workers are copies on Linux only")
    monkeypatch.setattr(workers, "FORKS", request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    (path / "text").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    train_pair([path / "text"], [path / "text"], path, TokenizerConfig(vocab_size=140))
    return path


@pytest.mark.whole
@pytest.mark.parametrize("start_method", [True, False], indirect=True, ids=["copies", "new processes"])
@pytest.mark.usefixtures("start_method")
def test_workers_give_the_translations_of_one_translator(folder):
    lines = [*LINES, "", " ", *LINES[::-1]]
    with WorkerPool(functools.partial(load, folder), 2, flush_every=3) as pool:
        translations = list(pool.translate(lines))
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
    truth = list(load(folder).translate(lines))
    assert (
        [(t.line, t.hyp) for t in translations] == [(t.line, t.hyp) for t in again] == [(t.line, t.hyp) for t in truth]
    )


@pytest.mark.usefixtures("start_method")
def test_an_error_of_loading_is_raised(folder):
    with pytest.raises(DataError, match="damaged"), WorkerPool(functools.partial(fail, folder), 1) as pool:
        list(pool.translate(LINES))


@pytest.mark.usefixtures("start_method")
def test_translations_before_an_error_are_returned(folder):
    lines = [*LINES, ConstrainedLine(text="a", include=("red dog",), exclude=("dog",)), "a"]
    with WorkerPool(functools.partial(load, folder), 2, flush_every=5) as pool:
        stream = pool.translate(lines)
        assert [next(stream).line for _ in LINES] == list(range(1, len(LINES) + 1))
        with pytest.raises(DataError, match=f"line {len(LINES) + 1}: 'red dog' must appear"):
            next(stream)


@pytest.mark.usefixtures("start_method")
def test_a_call_that_is_not_read_to_its_end_leaves_no_answers_to_the_next(folder, monkeypatch):
    monkeypatch.setattr(workers, "CHUNK_LINES", 1)
    with WorkerPool(functools.partial(load, folder), 2) as pool:
        abandoned = pool.translate(LINES)
        next(abandoned)
        abandoned.close()
        found = [(each.line, each.hyp) for each in pool.translate(LINES[:1:-1])]
    assert found == [(each.line, each.hyp) for each in load(folder).translate(LINES[:1:-1])]


class ScriptedTranslator:
    """Fails at the line "bad", for which the line "slow" waits up to 10 seconds; other lines need no time."""

    compute_type, can_fork = "float32", True

    def __init__(self, folder: Path) -> None:
        self.failed = folder / "failed"

    def translate(self, lines, *, first):
        for number, line in enumerate(lines, start=first):
            if line == "bad":
                self.failed.touch()
                raise DataError("bad")
            deadline = time.monotonic() + 10
            while line == "slow" and not self.failed.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.5 * (line == "slow"))
            yield Translation(line=number, hyp=line)


def test_no_line_is_read_after_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "CHUNK_LINES", 1)
    read = []
    lines = (read.append(line) or line for line in ["slow", "bad", *map(str, range(20))])
    with WorkerPool(functools.partial(ScriptedTranslator, tmp_path), 2) as pool:
        stream = pool.translate(lines)
        assert next(stream).hyp == "slow"
        with pytest.raises(DataError, match="bad"):
            next(stream)
    assert read == ["slow", "bad"]


@pytest.mark.parametrize(("num_workers", "flush_every"), [(3, 1), (2, 4), (2, 5), (4, 3)])
def test_with_flush_every_no_line_is_read_before_those_before_are_returned(tmp_path, num_workers, flush_every):
    returned = []

    def lines():
        for number in range(11):
            assert len(returned) == number // flush_every * flush_every
            yield str(number)

    load_scripted = functools.partial(ScriptedTranslator, tmp_path)
    with WorkerPool(load_scripted, num_workers, flush_every=flush_every) as pool:
        for translation in pool.translate(lines(), first=7):
            returned.append((translation.line, translation.hyp))
    assert returned == [(number + 7, str(number)) for number in range(11)]


def test_with_flush_every_the_workers_share_a_window(tmp_path):
    with WorkerPool(functools.partial(ScriptedTranslator, tmp_path), 2, flush_every=2) as pool:
        stream = pool.translate(["slow", "bad", "next"])  # "slow" waits until another worker translates "bad"
        assert next(stream).hyp == "slow"
        with pytest.raises(DataError, match="bad"):
            next(stream)
    assert (tmp_path / "failed").exists()


@pytest.mark.whole
def test_out_of_memory_in_a_worker_is_reported_like_in_this_process(folder, monkeypatch):
    monkeypatch.setattr(workers, "FORKS", False)
    with pytest.raises(RuntimeError) as here:
        run_out_of_memory(folder)
    with WorkerPool(functools.partial(run_out_of_memory, folder), 1) as pool, pytest.raises(RuntimeError) as there:
        list(pool.translate(LINES))
    assert str(there.value) == str(here.value)
    assert is_oom(there.value)
    assert "in run_out_of_memory" in there.value.__notes__[0]


@pytest.mark.whole
def test_workers_end_with_their_parent(folder):
    program = f"""if True:
        import functools, time
        from pathlib import Path
        from tests.unit.translate.test_workers import WorkerPool, load
        if __name__ == "__main__":
            with WorkerPool(functools.partial(load, Path({str(folder)!r})), 3) as pool:
                print(*(process.pid for process in pool._processes), flush=True)
                time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.kill()
    assert len(pids) == 3
    deadline = time.monotonic() + 30
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_running(pid) for pid in pids)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.is_file() or state.read_text().rpartition(")")[2].split()[0] != "Z"  # ended, nobody has waited


@pytest.mark.parametrize(("size", "cores", "expected"), [(2.9, 8, 2), (0.5, 8, 1), (100, 8, 8), (100, 1, 1)])
def test_number_of_workers_by_size_of_the_text(tmp_path, monkeypatch, size, cores, expected) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    text = tmp_path / "text"
    with text.open("wb") as file:
        file.truncate(int(size * BYTES_PER_WORKER))
    assert auto_num_workers(text, None) == auto_num_workers(text, "cpu") == expected
    assert auto_num_workers(text, "cuda:0") == auto_num_workers(Path("-"), None) == 1
