"""The command line as scripts see it: exit codes, streams, and one sentence for each mistake."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from mtkit.cli import entry, memory
from mtkit.cli.app import COMMANDS
from mtkit.errors import Interrupted, MtkitError, RecipeError

Run = Callable[..., tuple[int, str, str]]
MTKIT = [sys.executable, "-m", "mtkit"]
CPU_MEMORY = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes. Error code 12"
GPU_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs a command line in this process; gives exit code, stdout and stderr."""

    def execute(*words: str) -> tuple[int, str, str]:
        code = entry.execute(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    before = signal.getsignal(signal.SIGTERM)
    yield execute
    signal.signal(signal.SIGTERM, before)


def failing(error: BaseException) -> Callable[[list[str]], int]:
    def invoke(words: list[str]) -> int:
        print("data")
        raise error

    return invoke


def test_help_is_data(run: Run) -> None:
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    assert all(command in out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(run: Run, command: str) -> None:
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    assert f"mtkit {command}" in out


def test_version(run: Run) -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert re.fullmatch(r"mtkit \d+\.\d+\.\d+\n", out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing command; see mtkit --help"),
        (["trian"], "Did you mean 'train'? See mtkit --help\n"),
        (["train"], "train: Missing argument 'RECIPE'; see mtkit train --help"),
        (["train", "quickstart", "--fersh"], "train: --fersh: no such option; did you mean --fresh? See mtkit train"),
        (["--verison"], "--verison: no such option; did you mean --version?"),
        (["translate", "m", "--beam-size", "x"], "'--beam-size'"),
        (["translate", "m", "--beam-size", "0"], "'--beam-size'"),
        (["translate", "m", "--compute-type", "int9"], "'--compute-type'"),
        (["train-bpe", "a.txt"], "--vocab-size N -o PREFIX"),
        (["train-bpe", "--recipe", "quickstart", "--vocab-size", "9"], "with --recipe say tokenizer.KEY=VALUE"),
        (["train-bpe", "a", "--vocab-size", "9", "-o", "b", "--run-dir", "r"], "--run-dir is for the tokenizer of a"),
        (["evaluate", "a.txt"], "either HYP... --ref REF, or --run RUN_FOLDER"),
        (["evaluate", "--run", "r", "--ref", "x"], "either HYP... --ref REF, or --run RUN_FOLDER"),
        (["evaluate", "--run", "r", "--lang", "ja"], "--run knows its texts and their languages"),
        (["evaluate", "--run", "r", "--src", "x"], "give neither --src nor --lang"),
        (["fetch", "multi31k"], "known here: multi30k"),
        (["average", "a"], "average: Missing option '-o'"),
    ],
)
def test_wrong_usage_is_one_sentence(run: Run, words: list[str], said: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("mtkit: error: ")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RecipeError("a.yaml:3: model.x: no such key"), 78, "mtkit: error: a.yaml:3: model.x: no such key\n"),
        (PermissionError(13, "Permission denied", "x.txt"), 74, "mtkit: error: x.txt: permission denied\n"),
        (OSError(28, "No space left on device"), 74, "mtkit: error: reading or writing failed: no space left"),
        (KeyboardInterrupt(), 130, "mtkit: error: interrupted\n"),
        (Interrupted(signal.SIGTERM), 143, "mtkit: error: interrupted; the state is saved\n"),
        (MemoryError(), 70, "mtkit: error: out of memory; "),
        (RuntimeError(CPU_MEMORY), 70, "mtkit: error: out of memory (4.0 GiB more were asked for); "),
        (RuntimeError(GPU_MEMORY), 70, "mtkit: error: out of memory (2.00 GiB more were asked for); "),
    ],
)
def test_each_error_has_its_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    monkeypatch.setattr(entry, "_invoke", failing(error))
    found, out, err = run("anything")
    assert (found, out) == (code, "data\n")
    assert err.startswith(said)


@pytest.mark.parametrize(
    ("command", "remedy"),
    [("train", "training.batch_tokens"), ("translate", "--batch-tokens"), ("average", "end other programs")],
)
def test_memory_that_is_used_up_gets_the_remedy_of_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, remedy: str
) -> None:
    monkeypatch.setattr(entry, "_invoke", failing(RuntimeError(CPU_MEMORY)))
    assert remedy in run(command)[2]


def test_what_torch_says_of_memory_is_known() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50, dtype=torch.uint8)
    assert memory.is_used_up(caught.value)
    assert "(1,048,576.0 GiB more were asked for)" in memory.explain(caught.value, "train")


def test_every_error_class_has_a_code_of_the_design() -> None:
    codes = {each.__name__: each.exit_code for each in MtkitError.__subclasses__() if each is not Interrupted}
    assert sorted(codes.values()) == [2, 65, 66, 69, 70, 74, 75, 78, 141]


def test_a_long_error_is_cut_at_twelve_lines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "_invoke", failing(RecipeError("\n".join(f"fault {i}" for i in range(40)))))
    _, _, err = run("anything")
    assert err.count("\n") == 12
    assert err.endswith("... and 29 more lines\n")


def test_debug_shows_the_traceback_and_may_stand_anywhere(run: Run) -> None:
    code, _, err = run("run", "no-such-recipe.yaml", "--debug")
    assert code == 66
    assert err.startswith("Traceback")
    assert "mtkit: error: no-such-recipe.yaml: no such recipe" in err
    assert "Traceback" not in run("run", "no-such-recipe.yaml")[2]


def shell(command: str, folder: Path, *, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A line of bash in a folder, in which `mtkit` is this one; the exit code is that of mtkit."""
    root = Path(__file__).parents[2]
    prelude = f'mtkit() {{ "{sys.executable}" -m mtkit "$@"; }}; '
    variables = {**os.environ, "PYTHONPATH": str(root), **(env or {})}
    return subprocess.run(
        ["bash", "-c", prelude + command], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    done = shell("mtkit --help | true; exit ${PIPESTATUS[0]}", tmp_path)
    # a help that was in the pipe before its reader ended is 0
    assert done.returncode in (0, 141)
    assert done.stderr == ""


def test_head_ends_quietly(tmp_path: Path) -> None:
    code = (
        "from mtkit.cli import entry; from mtkit.cli.printing import print_lines; "
        "entry._invoke = lambda words: print_lines(str(i) for i in range(10**6)); raise SystemExit(entry.execute([]))"
    )
    done = shell(f'"{sys.executable}" -c "{code}" | head -n 2; exit ${{PIPESTATUS[0]}}', tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (141, "0\n1\n", "")


def test_a_full_disk_behind_stdout(tmp_path: Path) -> None:
    done = shell("mtkit --help > /dev/full", tmp_path)
    assert done.returncode == 74
    assert done.stderr == "mtkit: error: reading or writing failed: no space left on device\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [("mtkit --help >&-", 74), ("mtkit evaluate nothing --ref nothing 2>&-", 66), ("mtkit --version <&-", 0)],
)
def test_a_closed_stream_is_no_fault_of_mtkit(tmp_path: Path, command: str, code: int) -> None:
    done = shell(command, tmp_path)
    assert done.returncode == code
    assert done.stderr == ("mtkit: error: reading or writing failed: bad file descriptor\n" if code == 74 else "")


def test_sigterm(tmp_path: Path) -> None:
    code = (
        "from mtkit.cli import entry; import os, signal; "
        "entry._invoke = lambda words: os.kill(os.getpid(), signal.SIGTERM); raise SystemExit(entry.execute([]))"
    )
    done = shell(f'"{sys.executable}" -c "{code}"', tmp_path)
    assert (done.returncode, done.stderr) == (143, "mtkit: error: terminated by a signal\n")


def test_a_fault_of_our_own_is_one_sentence_and_its_traceback_is_for_debug(tmp_path: Path) -> None:
    code = (
        "import sys; from mtkit.cli import entry; sys.argv = ['mtkit', *sys.argv[1:]]; "
        "entry._invoke = lambda words: print('data', {}['a key']); entry.main()"
    )
    done = shell(f'"{sys.executable}" -c "{code}" train', tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("mtkit: error: this is a fault of mtkit, not of yours: KeyError: 'a key' (entry.py:")
    assert done.stderr.endswith("\nreport it with what the same command says with --debug\n")
    done = shell(f'"{sys.executable}" -c "{code}" train --debug', tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")


def test_stdout_is_utf8_in_any_locale(tmp_path: Path) -> None:
    code = (
        "from mtkit.cli import entry; from mtkit.cli.printing import print_lines; "
        "entry._invoke = lambda words: print_lines(['Gr\\u00fc\\u00dfe']); raise SystemExit(entry.execute([]))"
    )
    done = shell(f'"{sys.executable}" -c "{code}"', tmp_path, env={"PYTHONIOENCODING": "latin-1"})
    assert done.stdout == "Grüße\n"
