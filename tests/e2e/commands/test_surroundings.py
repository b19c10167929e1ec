"""Surroundings that a command cannot work in: a deleted folder, a full stderr, too many workers for the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.cli.exit_codes import is_bug
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.rnn.config import Seq2SeqRNNConfig

ROOT = Path(__file__).parents[3]
LSTM = Seq2SeqRNNConfig(d_model=8, d_embed=8, num_layers=1)
FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
def test_an_error_keeps_its_exit_code_when_stderr_is_full(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mtkit", "translate", str(tmp_path / "none")]
    with FULL.open("w") as stderr:
        assert subprocess.run(command, stderr=stderr, stdin=subprocess.DEVNULL, cwd=ROOT, check=False).returncode == 66


@pytest.mark.parametrize("words", ["keys model.dropout", "doctor --no-speed"])
def test_a_current_folder_that_was_deleted_is_named(tmp_path: Path, words: str) -> None:
    script = f'cd "$1" && rmdir "$1" && exec "$2" -m mtkit {words}'
    (folder := tmp_path / "gone").mkdir()
    command = ["sh", "-c", script, "sh", str(folder), sys.executable]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 66
    assert done.stderr == "mtkit: error: the current folder no longer exists; change to another one\n"


@pytest.mark.whole
def test_log_settings_that_torch_refuses_are_named() -> None:
    command = [sys.executable, "-m", "mtkit", "describe", "quickstart"]  # builds a model with torch
    environment = {**os.environ, "TORCH_LOGS": "zzz"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert done.returncode == 2
    expected = "mtkit: error: the environment variable TORCH_LOGS=zzz is no setting of torch; unset it\n"
    assert done.stderr == expected


def test_another_value_error_is_a_bug_in_mtkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_LOGS", "zzz")
    assert is_bug(ValueError("2 rows, 3 labels"))
    assert not is_bug(ValueError("\nInvalid log settings: zzz, must be a comma separated list"))
    monkeypatch.delenv("TORCH_LOGS")
    assert is_bug(ValueError("Invalid log settings"))


def test_more_workers_than_the_machine_can_start_are_refused(
    toy_model: Callable[[ModelConfigBase], Path], text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workers = 16 * (os.cpu_count() or 1) + 1
    if workers > 1024:
        pytest.skip("the option itself refuses as many")
    assert entry.execute(["translate", str(toy_model(LSTM)), str(text), "--workers", str(workers)]) == 2
    assert f"{workers:,} workers are too many for " in capsys.readouterr().err
    assert entry.execute(["bench", str(toy_model(LSTM)), str(text), "--workers", "9999"]) == 2
    assert "--workers" in capsys.readouterr().err


def test_a_claim_that_is_no_mapping_is_answered_with_its_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "claim.yaml").write_text("5\n")
    assert entry.execute(["reproduce", str(tmp_path / "claim.yaml")]) == 78
    assert "a claim is a mapping with the keys claim, source, url, scale, study, " in capsys.readouterr().err
