"""`mtkit translate` with an untrained model: the output is nonsense, but has the right lines."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mtkit.cli import entry
from mtkit.errors import UsageError
from mtkit.model_folder.folder import ModelMetadata, write_model
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import SearchConfig
from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.training.weights import weights
from mtkit.translate.load import load_scorer, load_translator

ROOT = Path(__file__).parents[3]
LINES = ["the dog sees a cat", "", "  ", "a cat", "the cat sees the dog and the dog", "\u2028cat\x0c d\u00e9"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model without attention."""
    return make_model(tmp_path_factory.mktemp("lstm"), Seq2SeqRNNConfig(d_model=8, num_layers=1))


@pytest.fixture(scope="module")
def attentive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model with attention over the source."""
    config = TransformerConfig(d_model=8, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1)
    return make_model(tmp_path_factory.mktemp("transformer"), config)


def make_model(folder: Path, model: Seq2SeqRNNConfig | TransformerConfig) -> Path:
    text = folder / "text"
    text.write_text("".join(f"{line}\n" for line in LINES[:5] * 3))
    config = TokenizerConfig(model_type="char", vocab_size=113)
    (folder / "tokenizer").mkdir()
    train_pair([text], [text], folder / "tokenizer", config)
    tokenizers = TokenizerPair.load(folder / "tokenizer")
    torch.manual_seed(1)
    size = tokenizers.src.vocab.size
    metadata = ModelMetadata(
        src_lang="en",
        tgt_lang="de",
        max_source_length=40,
        tokenizer=tokenizers.config,
        model=model,
        search=SearchConfig(beam_size=2),
    )
    write_model(folder / "model", weights(model.build(size, size)), metadata, tokenizers, card="a toy\n")
    return folder / "model"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def lines_of(text: str) -> list[str]:
    assert text.endswith("\n")
    return text.split("\n")[:-1]


def translated(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert entry.execute(["translate", *words]) == 0
    captured = capsys.readouterr()
    assert all(" flagged: " in line for line in captured.err.split("\n")[:-1])
    return lines_of(captured.out)


def test_one_output_line_for_each_input_line(model: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hyps = translated(capsys, str(model), str(source))
    assert len(hyps) == len(LINES)
    assert [bool(hyp.strip()) for hyp, line in zip(hyps, LINES, strict=True) if not line.strip()] == [False, False]


def test_file_stdin_and_output_file_give_the_same_lines(
    model: Path, source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hyps = translated(capsys, str(model), str(source))
    for words in ([], ["-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(source.read_bytes()))))
        assert translated(capsys, str(model), *words) == hyps
    output = source.with_name("out.txt")
    assert entry.execute(["translate", str(model), str(source), "-o", str(output)]) == 0
    assert capsys.readouterr().out == ""
    assert lines_of(output.read_text(encoding="utf-8")) == hyps
    assert {path.name for path in source.parent.iterdir()} == {"in.txt", "out.txt"}


def test_jsonl(model: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hyps = translated(capsys, str(model), str(source))
    records = [
        json.loads(line, parse_constant=pytest.fail) for line in translated(capsys, str(model), str(source), "--jsonl")
    ]
    assert [record["hyp"] for record in records] == hyps
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5, 6]
    fields = [
        "line",
        "hyp",
        "score",
        "log_prob",
        "tokens",
        "token_log_probs",
        "alignment",
        "nbest",
        "length_ratio",
        "flags",
    ]
    assert all(set(fields) <= set(record) for record in records)
    assert all(record["log_prob"] < 0 for record, line in zip(records, LINES, strict=True) if line.strip())


def test_jsonl_of_greedy_search_has_scores_and_alignment(
    attentive: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = translated(capsys, str(attentive), str(source), "--jsonl", "--beam-size", "1")
    for text, line in zip(printed, LINES, strict=True):
        record = json.loads(text, parse_constant=pytest.fail)
        if line.strip():
            assert sum(record["token_log_probs"]) == pytest.approx(record["log_prob"], abs=1e-4)
            assert len(record["token_log_probs"]) == len(record["tokens"]) + 1
            assert record["log_prob"] < 0
            assert bool(record["alignment"]) == bool(record["hyp"].split())
        else:
            assert record["log_prob"] == 0


def test_constraints_and_reranking(
    attentive: Path, source: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "constraints.jsonl"
    path.write_text('{"prefix": "the d"}\n\n\n{"include": ["dog"], "exclude": ["a"]}\n\n\n')
    words = ["--constraints", str(path), "--set", "search.rerank={kind: mbr}", "--set", "search.max_length.offset=20"]
    hyps = translated(capsys, str(attentive), str(source), *words)
    assert hyps[0].startswith("the d")
    assert "dog" in hyps[3]
    assert "a" not in hyps[3]
    path.write_text("{}\n")
    assert entry.execute(["translate", str(attentive), str(source), "--constraints", str(path)]) == 65
    assert "constraints.jsonl: ends at line 1" in capsys.readouterr().err


def test_finished_lines_stay_in_the_part_file_after_an_invalid_line(
    model: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.write_bytes(source.read_bytes() + b"caf\xe9\n")
    output = source.with_name("out.txt")
    assert entry.execute(["translate", str(model), str(source), "-o", str(output)]) == 65
    captured = capsys.readouterr()
    assert f"{source}:7: byte 4" in captured.err
    assert captured.out == ""
    assert not output.exists()
    assert len(lines_of(output.with_name("out.txt.part").read_text(encoding="utf-8"))) == len(LINES)
    assert f"out.txt.part keeps {len(LINES)} finished lines; the same command with --resume" in captured.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--set", "search.beamsize=3"], 78, "did you mean search.beam_size?"),
        (["--set", "search.beam_size=many"], 78, "beam_size"),
        (["--set", "beam_size"], 78, "key=value"),
        (["--ensemble", "nowhere"], 66, "nowhere"),
        (["--device", "toaster"], 2, "device toaster: not available; this machine has cpu"),
        (["--device", "cuda:99"], 2, "device cuda:99: not available; this machine has cpu"),
        (["--device", "cpu:3"], 2, "device cpu:3: the CPU has no number; write cpu"),
        (["--device", ""], 2, "device '': not available; this machine has cpu"),
    ],
)
def test_errors_in_options(
    model: Path, source: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    assert entry.execute(["translate", str(model), str(source), *words]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") <= 12


def test_the_device_is_checked_before_a_model_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="device tpu: not available"):
        load_translator(tmp_path / "nowhere", device="tpu")
    with pytest.raises(UsageError, match="device tpu: not available"):
        load_scorer([tmp_path / "nowhere"], device="tpu")


def test_a_damaged_model_is_named(
    model: Path, source: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in model.iterdir():
        (damaged / path.name).write_bytes(path.read_bytes())
    (damaged / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:100])
    assert entry.execute(["translate", str(damaged), str(source)]) == 65
    assert "damaged: damaged: model.safetensors not as written" in capsys.readouterr().err


def test_several_workers_give_the_same_lines(model: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert translated(capsys, str(model), str(source), "--workers", "2") == translated(capsys, str(model), str(source))


@pytest.mark.whole
@pytest.mark.parametrize("words", [[], ["--jsonl"], ["--flush-every", "2"], ["--workers", "2"]])
def test_resume_continues_after_the_finished_lines(
    words: list[str], model: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hyps = translated(capsys, str(model), str(source), *words)
    output, part = source.with_name("out.txt"), source.with_name("out.txt.part")
    command = ["translate", str(model), str(source), "-o", str(output), *words]
    whole = source.read_bytes()
    source.write_bytes(whole + b"caf\xe9\n")
    assert entry.execute(command) == 65
    assert lines_of(part.read_text(encoding="utf-8")) == hyps
    source.write_bytes(whole)
    assert entry.execute([*command, "--resume", "--set", "search.beam_size=3"]) == 65
    assert 'out.txt.part: was written with search [], not ["search.beam_size=3"]; start over' in capsys.readouterr().err
    assert lines_of(part.read_text(encoding="utf-8")) == hyps
    for _ in range(2):
        assert entry.execute([*command, "--resume"]) == 0
        assert lines_of(output.read_text(encoding="utf-8")) == hyps
        assert [path.name for path in output.parent.glob("*out.txt*")] == ["out.txt"]


def test_resume_refuses_another_model_another_text_and_needs_a_file(
    model: Path, attentive: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = source.with_name("out.txt")
    words = [str(source), "-o", str(output), "--flush-every", "2"]
    whole = source.read_bytes()
    source.write_bytes(whole + b"caf\xe9\n")
    assert entry.execute(["translate", str(model), *words]) == 65
    source.write_bytes(whole)
    for other, text, message in (
        (attentive, whole, "was written with models "),
        (model, whole.replace(b"dog", b"cat"), "has translations of other lines than the first 6 of the input"),
        (model, whole.split(b"\n")[0], "has translations of 6 lines, but the input has 1"),
    ):
        source.write_bytes(text)
        assert entry.execute(["translate", str(other), *words, "--resume"]) == 65
        assert f"out.txt.part: {message}" in capsys.readouterr().err
    assert entry.execute(["translate", str(model), str(source), "--resume"]) == 2
    assert "--resume continues FILE.part and needs -o FILE" in capsys.readouterr().err
    assert entry.execute(["translate", str(model), f"{output}.part", "-o", str(output)]) == 2
    assert "is where unfinished lines of -o" in capsys.readouterr().err


@pytest.mark.whole
def test_pipe_with_flush_every_line(model: Path) -> None:
    command = [sys.executable, "-m", "mtkit", "translate", str(model), "--flush-every", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in LINES[:2]:
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.whole
def test_terminal_prompt(model: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mtkit", "translate", str(model)]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        os.close(theirs)
        assert process.stdout is not None
        assert process.stderr is not None
        for line in LINES[:2]:
            os.write(ours, f"{line}\n".encode())
            assert process.stdout.readline().endswith(b"\n")
        os.write(ours, b"\x04")  # end of file
        assert process.wait() == 0
        hint, prompts = process.stderr.read().split(b"\n", 1)
        assert b"/best" in hint
        assert prompts.startswith(b"> > > \n")  # flags of an untrained model may follow
    os.close(ours)


@pytest.fixture
def terminal(model: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """`mtkit translate` whose stdin and stdout are a terminal: our end of it, and the process."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mtkit", "translate", str(model), "--beam-size", "5"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, cwd=ROOT) as process:
        os.close(theirs)
        yield ours, process
        process.kill()
    os.close(ours)


@pytest.mark.whole
def test_questions_at_the_terminal(terminal: tuple[int, subprocess.Popen[bytes]]) -> None:
    """/best and /flags are answered on stderr, and Up brings a line back; stdout has translations alone."""
    ours, process = terminal
    assert process.stderr is not None

    def shown() -> list[str]:
        """What the terminal shows before the next prompt, as lines."""
        text = b""
        while not text.endswith(b"> "):
            text += os.read(ours, 4096)
        return text.decode().replace("\r", "").split("\n")[:-1]

    assert shown() == []
    assert "/best" in process.stderr.readline().decode()
    for words, flag in ((LINES[3], "nothing unusual\n"), ("\N{SNOWMAN}", "unknown: with characters that the")):
        os.write(ours, f"{words}\n".encode())
        typed, translation = shown()
        assert typed == words
        os.write(ours, b"/best\n")
        assert shown() == ["/best"]
        best = [process.stderr.readline().decode().split(" ||| ")[1] for _ in range(5)]
        assert best[0] == f"{translation}\n"
        assert len(set(best)) == 5
        os.write(ours, b"/flags\n")
        assert shown() == ["/flags"]
        assert flag in process.stderr.readline().decode()
    os.write(ours, b"\x1b[A\x1b[A\x1b[A\n")  # Up three times
    assert shown()[-1] == translation
    os.write(ours, b"\x04")
    assert process.wait() == 0


@pytest.mark.parametrize(
    "words", [[], ["--jsonl", "--flags", "flags.jsonl"], ["--n-best", "2", "--n-best-format", "moses"]]
)
def test_shards_are_joined_to_the_lines_of_one_command(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("".join(f"{line} {number}\n" if line else "\n" for number, line in enumerate(LINES * 3)))
    command = ["translate", str(model), "text", *words]
    assert entry.execute([*command, "-o", "one"]) == 0
    expected = {"hyp": Path("one").read_bytes()}
    if "--flags" in words:
        expected["flags.jsonl"] = Path("flags.jsonl").read_bytes()
        Path("flags.jsonl").unlink()
    for index in (3, 1, 4, 2):
        assert entry.execute([*command, "-o", "hyp", "--shard", f"{index}/4"]) == 0
    made = Path("hyp.shard-2-of-4").stat().st_ino
    capsys.readouterr()
    assert entry.execute([*command, "-o", "hyp", "--shard", "2/4"]) == 0
    assert "hyp.shard-2-of-4: complete already" in capsys.readouterr().err
    assert Path("hyp.shard-2-of-4").stat().st_ino == made
    assert entry.execute(["merge", "hyp"]) == 0
    assert capsys.readouterr().out == "".join(f"{name}\n" for name in expected)
    assert {name: Path(name).read_bytes() for name in expected} == expected
    Path("text").write_text("other\n")
    assert entry.execute([*command, "-o", "hyp", "--shard", "2/4"]) == 0
    assert entry.execute(["merge", "hyp"]) == 65
    for bad in (["text", "--shard", "1/2"], ["-", "-o", "x", "--shard", "1/2"], ["text", "-o", "x", "--shard", "3/2"]):
        assert entry.execute(["translate", str(model), *bad]) == 2
