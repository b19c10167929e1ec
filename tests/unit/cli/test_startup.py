"""Start-up time: no heavy imports for --help, --version and usage errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import shellingham

from mtkit.cli import entry
from mtkit.hardware import limit_spinning

COMPLETE = {"_MTKIT_COMPLETE": "complete_bash", "COMP_WORDS": "mtkit tra", "COMP_CWORD": "1"}
HEAVY = ("torch", "numpy", "sentencepiece", "sacrebleu", "yaml", "rich")


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.whole
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["run", "--help"], ["translate", "--help"], ["trian"]])
def test_help_and_version_import_nothing_heavy(words: list[str]) -> None:
    code = f"import sys; from mtkit.cli.entry import execute; execute({words!r}); print(sorted(sys.modules))"
    loaded = python(code).rstrip("\n").rpartition("\n")[2]
    # typer itself may parse the options of a command with pydantic
    heavy = (*HEAVY, "pydantic") if words in (["--help"], ["--version"]) else HEAVY
    assert [name for name in heavy if f"'{name}'" in loaded] == []


def test_importing_the_package_does_not_import_torch() -> None:
    assert python("import mtkit, sys; print('torch' in sys.modules, mtkit.__version__ != '')") == "False True\n"


@pytest.mark.whole
def test_recipes_do_not_import_what_only_sharded_models_need() -> None:
    code = "import mtkit.recipe.recipe, mtkit.pipeline.stages, sys; print('torch.distributed.tensor' in sys.modules)"
    assert python(code) == "False\n"


@pytest.mark.whole
@pytest.mark.parametrize(
    ("command", "key"),
    [
        (command, key) if number == place % 3 else pytest.param(command, key, marks=pytest.mark.whole)
        for place, command in enumerate(["train", "run", "preprocess", "train-bpe --recipe"])
        for number, key in enumerate(["training.max_updates=x", "model.d_modle=8", "tokenizer.shared=false"])
    ],
)
def test_an_error_of_a_recipe_appears_before_torch_is_imported(command: str, key: str) -> None:
    words = [*command.split(), "multi30k-transformer", key]
    code = f"import sys; from mtkit.cli.entry import execute; print(execute({words!r}), 'torch' in sys.modules)"
    assert python(code) == "78 False\n"


@pytest.mark.whole
@pytest.mark.parametrize("command", ["train", "run"])
def test_spinning_is_limited_before_torch_reads_the_environment(command: str) -> None:
    code = (
        "import os, sys\nfrom mtkit.cli import entry\nfrom mtkit import hardware\n"
        "limit = hardware.limit_spinning\n"
        "hardware.limit_spinning = lambda: (limit(), print('torch' in sys.modules, os.environ['GOMP_SPINCOUNT']))\n"
        f"entry.execute(['{command}', 'missing.yaml'])"
    )
    assert python(code) == "False 1000\n"


def test_spinning_set_by_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    limit_spinning()
    assert os.environ["GOMP_SPINCOUNT"] == "7"
    monkeypatch.delenv("GOMP_SPINCOUNT")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    limit_spinning()
    assert "GOMP_SPINCOUNT" not in os.environ


def test_every_command_stands_in_the_help_on_one_line() -> None:
    lines = python("from mtkit.cli.entry import execute; execute(['--help'])").splitlines()
    listed = {line.split()[0]: line for line in lines if line.startswith("  ") and line[2:3].isalpha()}
    commands = python("from mtkit.cli.app import COMMANDS; print(*COMMANDS)").split()
    assert [name for name in commands if name not in listed or not listed[name].rstrip().endswith(".")] == []


def mtkit(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-m", "mtkit", *words], capture_output=True, text=True, env=environment)


def test_a_shell_receives_completions() -> None:
    result = mtkit(**COMPLETE)
    assert (result.returncode, result.stderr) == (0, "")
    assert set(result.stdout.split()) == {"train", "train-bpe", "train-vectors", "translate"}
    options = mtkit(**{**COMPLETE, "COMP_WORDS": "mtkit translate --be", "COMP_CWORD": "2"})
    assert options.stdout.split() == ["--beam-size"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the running shell was not recognised"),  # the tests run below Python
        (["tcsh"], "tcsh: no completion for this shell"),
    ],
)
def test_an_unknown_shell_is_answered_with_the_known_ones(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise shellingham.ShellDetectionFailure

    monkeypatch.setattr(shellingham, "detect_shell", fail)
    for option in ("--install-completion", "--show-completion"):
        assert entry.execute([option, *words]) == 2
        names = "bash, zsh, fish, powershell, pwsh"
        assert (
            capsys.readouterr().err == f"mtkit: error: {option}: {message}; name one of {names}: mtkit {option} bash\n"
        )


def test_completion_is_installed_by_the_usual_command(tmp_path: Path) -> None:
    shown = mtkit("--show-completion", "bash")
    assert shown.returncode == 0
    assert "_MTKIT_COMPLETE=complete_bash" in shown.stdout
    installed = mtkit("--install-completion", "bash", HOME=str(tmp_path))
    assert installed.returncode == 0
    assert "completion installed in" in installed.stdout
    assert "mtkit" in (tmp_path / ".bashrc").read_text()
