"""The command line as scripts use it: exit codes, streams, and one-sentence error messages."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mtkit.cli import entry, exit_codes
from mtkit.cli.app import COMMANDS
from mtkit.errors import Interrupted, MtkitError, RecipeError, is_oom

Run = Callable[..., tuple[int, str, str]]
MTKIT = [sys.executable, "-m", "mtkit"]
CPU_OOM = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes. Error code 12"
GPU_OOM = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a command line in this process and returns exit code, stdout and stderr."""

    def execute(*words: str) -> tuple[int, str, str]:
        code = entry.execute(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return execute


def failing(error: BaseException) -> Callable[[list[str]], int]:
    def invoke(words: list[str]) -> int:
        print("data")
        raise error

    return invoke


def test_help_is_printed_to_stdout_and_lists_all_commands(run: Run) -> None:
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


@pytest.mark.whole
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "Did you mean 'train'? See mtkit --help\n"),
        (["train"], "train: Missing argument 'RECIPE'; see mtkit train --help"),
        (["train", "quickstart", "--fersh"], "train: --fersh: no such option; did you mean --fresh? See mtkit train"),
        (["train", "x", "--lr", "1"], "keys of a recipe are arguments: training.optimiser.learning_rate=VALUE; see"),
        (["run", "x", "--max-epochs", "3"], "of a recipe are arguments: training.max_epochs=VALUE; see mtkit run"),
        (["preprocess", "x", "--budget", "3m"], "mtkit run and mtkit train and mtkit finetune have it; see"),
        (["translate", "x", "--epochs", "3"], "; a recipe has it: mtkit train RECIPE training.max_epochs=VALUE; see"),
        (["--verison"], "--verison: no such option; did you mean --version?"),
        (["translate", "x", "--greedy"], "translate: --greedy: no such option; give --beam-size 1; see"),
        (["evaluate", "x", "-i", "y"], "-i: no such option; translations are arguments: mtkit evaluate HYP --ref"),
        (["score", "x", "--tgt", "y"], "score: --tgt: no such option; give --ref FILE; see mtkit score --help"),
        (["translate", "m", "--n-best", "abc"], "translate: --n-best: 'abc' is not an integer; see mtkit translate"),
        (["translate", "m", "--sample", "hot"], "translate: --sample: 'hot' is not a number; see mtkit translate"),
        (["translate", "m", "--sample", "--flags"], "'--flags' is not a number; is the value of --sample missing? See"),
        (["translate", "m", "--beam-size", "0"], "--beam-size: 0 is out of range, the minimum is 1; see mtkit transl"),
        (["translate", "m", "--threads", "1025"], "--threads: 1025 is out of range, the maximum is 1024; see"),
        (["bench", "m", "--beam-size", "1", "--beam-size", "x"], "bench: --beam-size: 'x' is not an integer; see"),
        (["translate", "m", "--flags"], "translate: --flags: its value is missing; see mtkit translate --help"),
        (["translate", "m", "--jsonl=3"], "translate: Option '--jsonl' does not take a value; see mtkit translate --"),
        (["--version=3"], "mtkit: error: Option '--version' does not take a value; see mtkit --help"),
        (["translate", "m", "--compute-type", "int9"], ": --compute-type: 'int9' is not one of 'auto', 'float32'"),
        (["train-bpe", "a.txt"], "--vocab-size N -o PREFIX"),
        (["train-bpe", "--recipe", "quickstart", "--vocab-size", "9"], "with --recipe use tokenizer.KEY=VALUE"),
        (["train-bpe", "a", "--vocab-size", "9", "-o", "b", "--run-dir", "r"], "--run-dir needs --recipe"),
        (["evaluate", "a.txt"], "either HYP... --ref REF, or a run folder"),
        (["evaluate", "--run", "r", "--ref", "x"], "either HYP... --ref REF, or a run folder"),
        (["evaluate", "--run", "r", "--lang", "ja"], "with --run the recipe names source and language; omit --src"),
        (["evaluate", "--run", "r", "--src", "x"], "omit --src and --lang"),
        (["evaluate", "--ref", "r.txt"], "or a run folder; - as HYP reads stdin"),
        (["evaluate", "h.txt", "r.txt"], "or a run folder; if r.txt is the reference: --ref r.txt"),
        (["score", "m", "a.de", "a.en"], "a.de a.en: unexpected arguments; source and translation are options: --src"),
        (["translate", "m", "a", "beam_size=1"], "give --set beam_size=1, or --beam-size 1; see mtkit translate"),
        (["translate", "m", "a", "search.beam_size=1"], "give --set search.beam_size=1, or --beam-size 1; see"),
        (["translate", "m", "a", "min_length.offset=1"], "unexpected argument; give --set min_length.offset=1; see"),
        (["translate", "m", "a", "b"], "translate: b: unexpected argument; to write to it, give -o b; see"),
        (["translate", "m", "a", "b", "-o", "c"], "translate: b: unexpected argument; see mtkit translate --help"),
        (["watch", "a", "b", "c"], "watch: b c: unexpected arguments; see mtkit watch --help"),
        (["fetch", "multi31k"], "known corpora: multi30k"),
        (["average", "a"], "average: Missing option '-o'"),
        (["train", "x", "--resume", "--fresh"], "train: --fresh and --resume contradict each other; give one of them"),
        (["evaluate", "a", "--intervals", "--no-intervals"], "--intervals and --no-intervals contradict each other"),
        (["train-bpe", "a", "--vocab-size", "9", "-o", "b", "--min-frequency", "2"], "give --model-type word or char"),
        (["train-bpe", "a", "--vocab-size", "9", "-o", "b/"], "PREFIX must end in a file name, for PREFIX.model and"),
        (["train-bpe", "a", "--vocab-size", "9", "-o", ".."], "PREFIX must end in a file name, for PREFIX.model and"),
        (["train-bpe", "a", "--vocab-size", "9", "-o", "b.model"], "PREFIX is without .model; give -o b"),
        (["train-bpe", "a", "./a", "--vocab-size", "9", "-o", "b"], "train-bpe: a is given twice; omit one of the two"),
        (["average", "c", "./c", "-o", "m"], "average: c is given twice; omit one of the two"),
        (["translate", "m", "--ensemble", "n", "--ensemble", "n"], "translate: n is given twice; omit one of the two"),
        (["score", "m", "--ref", "r", "--ensemble", "m"], "score: m is given twice; omit one of the two"),
        (["train-vectors", "a", "-o", "b", "--side", "src"], "train-vectors: --side is for --tokenizer; omit it"),
        (["keys", "lr", "--markdown"], "keys: --markdown prints all keys; omit lr"),
        (["reproduce", "--list", "--measure-only"], "--list and --markdown only read results; of the other options"),
        (["reproduce", "--markdown", "--run-dir", "r"], "--list and --markdown only read results; of the other"),
        (["bench", "m", "a", "--threads", "2000"], "bench: --threads: 2000 is out of range, the maximum is 1024; see"),
        (["translate", "m", "a", "--workers", "2", "--threads", "2"], "--workers 2 are processes of one thread each;"),
    ],
)
def test_usage_errors_are_one_sentence(run: Run, words: list[str], message: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("mtkit: error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RecipeError("a.yaml:3: model.x: no such key"), 78, "mtkit: error: a.yaml:3: model.x: no such key\n"),
        (PermissionError(13, "Permission denied", "x.txt"), 74, "mtkit: error: x.txt: permission denied\n"),
        (OSError(28, "No space left on device"), 74, "mtkit: error: reading or writing failed: no space left"),
        (KeyboardInterrupt(), 130, "mtkit: error: interrupted by SIGINT\n"),
        (Interrupted(signal.SIGTERM), 143, "mtkit: error: interrupted; the state is saved\n"),
        (MemoryError(), 70, "mtkit: error: out of memory; "),
        (RuntimeError(CPU_OOM), 70, "mtkit: error: out of memory (tried to allocate 4.0 GiB more); "),
        (RuntimeError(GPU_OOM), 70, "mtkit: error: out of memory (tried to allocate 2.00 GiB more); "),
    ],
)
def test_each_error_has_its_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, message: str
) -> None:
    monkeypatch.setattr(entry, "_invoke", failing(error))
    exit_code, out, err = run("anything")
    assert (exit_code, out) == (code, "data\n")
    assert err.startswith(message)


@pytest.mark.parametrize(
    ("command", "hint"),
    [("train", "training.batch_tokens"), ("translate", "--batch-tokens"), ("average", "end other programs")],
)
def test_out_of_memory_advises_options_of_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, hint: str
) -> None:
    monkeypatch.setattr(entry, "_invoke", failing(RuntimeError(CPU_OOM)))
    assert hint in run(command)[2]


def test_a_real_out_of_memory_error_of_torch_is_recognised() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50, dtype=torch.uint8)
    assert is_oom(caught.value)
    assert "(tried to allocate 1,048,576.0 GiB more)" in exit_codes.explain_oom(caught.value, "train")


def test_exit_codes_of_the_error_classes() -> None:
    codes = {each.__name__: each.exit_code for each in MtkitError.__subclasses__() if each is not Interrupted}
    assert sorted(codes.values()) == [2, 65, 66, 69, 70, 74, 75, 78, 141]


def test_long_error_messages_are_cut_at_twelve_lines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "_invoke", failing(RecipeError("\n".join(f"error {i}" for i in range(40)))))
    _, _, err = run("anything")
    assert err.count("\n") == 12
    assert err.endswith("... and 29 more; --debug shows all\n")


def test_debug_option_is_allowed_anywhere_and_shows_the_traceback(run: Run) -> None:
    code, _, err = run("run", "no-such-recipe.yaml", "--debug")
    assert code == 66
    assert err.startswith("Traceback")
    assert "mtkit: error: no-such-recipe.yaml: no such recipe" in err
    assert "Traceback" not in run("run", "no-such-recipe.yaml")[2]


def shell(command: str, folder: Path, *, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in a folder, with `mtkit` defined as a function; the exit code is that of mtkit."""
    root = Path(__file__).parents[3]
    prelude = f'mtkit() {{ "{sys.executable}" -m mtkit "$@"; }}; '
    variables = {**os.environ, "PYTHONPATH": str(root), **(env or {})}
    return subprocess.run(
        ["bash", "-c", prelude + command], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


def test_a_closed_output_pipe_exits_quietly(tmp_path: Path) -> None:
    done = shell("mtkit --help | true; exit ${PIPESTATUS[0]}", tmp_path)
    # 0 if all of the help was in the pipe before the reader ended
    assert done.returncode in (0, 141)
    assert done.stderr == ""


def test_head_exits_quietly(tmp_path: Path) -> None:
    code = (
        "from mtkit.cli import entry; from mtkit.cli.printing import print_lines; "
        "entry._invoke = lambda words: print_lines(str(i) for i in range(10**6)); raise SystemExit(entry.execute([]))"
    )
    done = shell(f'"{sys.executable}" -c "{code}" | head -n 2; exit ${{PIPESTATUS[0]}}', tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (141, "0\n1\n", "")


def test_full_disk_behind_stdout(tmp_path: Path) -> None:
    done = shell("mtkit --help > /dev/full", tmp_path)
    assert done.returncode == 74
    assert done.stderr == "mtkit: error: reading or writing failed: no space left on device\n"


@pytest.mark.whole
@pytest.mark.parametrize(
    ("command", "code"),
    [("mtkit --help >&-", 74), ("mtkit evaluate nothing --ref nothing 2>&-", 66), ("mtkit --version <&-", 0)],
)
def test_closed_standard_streams_are_no_internal_error(tmp_path: Path, command: str, code: int) -> None:
    done = shell(command, tmp_path)
    assert done.returncode == code
    assert done.stderr == ("mtkit: error: reading or writing failed: bad file descriptor\n" if code == 74 else "")


def test_sigterm(tmp_path: Path) -> None:
    code = (
        "from mtkit.cli import entry; import os, signal; "
        "entry._invoke = lambda words: os.kill(os.getpid(), signal.SIGTERM); raise SystemExit(entry.execute([]))"
    )
    done = shell(f'"{sys.executable}" -c "{code}"', tmp_path)
    assert (done.returncode, done.stderr) == (143, "mtkit: error: interrupted by SIGTERM\n")


def test_internal_errors_are_one_sentence_and_the_traceback_needs_debug(tmp_path: Path) -> None:
    code = (
        "import sys; from mtkit.cli import entry; sys.argv = ['mtkit', *sys.argv[1:]]; "
        "entry._invoke = lambda words: print('data', {}['a key']); entry.main()"
    )
    done = shell(f'"{sys.executable}" -c "{code}" train', tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("mtkit: error: internal error (a bug in mtkit): KeyError: 'a key' (entry.py:")
    assert done.stderr.endswith("\nrun the same command with --debug and report its output\n")
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
