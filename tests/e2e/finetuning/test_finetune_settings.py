"""Settings of `mtkit finetune`: those of a rule have a reason, those of the command line have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.cli import entry
from tests.e2e.finetuning.test_finetune import OWN, UPDATES, pairs, train_base, write


@pytest.mark.whole
def test_only_settings_of_a_rule_have_a_reason(tmp_path: Path, capsys) -> None:
    (tmp_path / "base").mkdir()
    base, tuned = train_base(tmp_path / "base", 4), tmp_path / "tuned"
    words = ["finetune", str(base), *write(tmp_path, "own", pairs(150, OWN, 2)), "-o", str(tuned), UPDATES[2]]
    capsys.readouterr()
    assert entry.execute([*words, "training.max_updates=2"]) == 0
    for text in (capsys.readouterr().err, (tuned / "finetune.yaml").read_text(), (tuned / "recipe.yaml").read_text()):
        assert "tokens of own text" in text  # the reason of batch_tokens
        assert "epochs of" not in text
    assert "max_updates: 2\n" in (tuned / "finetune.yaml").read_text()
    assert entry.execute([*words, "training.max_updates=2", "training.batch_tokens=256", "--fresh"]) == 0
    assert "chosen" not in capsys.readouterr().err
    assert "tokens of own text" not in (tuned / "recipe.yaml").read_text()


@pytest.mark.whole
def test_a_reason_in_the_file_goes_when_the_command_states_the_setting(tmp_path: Path, capsys) -> None:
    (tmp_path / "base").mkdir()
    base, tuned = train_base(tmp_path / "base", 4), tmp_path / "tuned"
    words = ["finetune", str(base), *write(tmp_path, "own", pairs(150, OWN, 2)), "-o", str(tuned), *UPDATES[1:]]
    assert entry.execute([*words, "training.max_updates=2"]) == 0
    text = (tuned / "finetune.yaml").read_text()
    assert "chosen: {}" in text
    (tuned / "finetune.yaml").write_text(text.replace("chosen: {}", "chosen: {training.max_updates: ten epochs of it}"))
    assert entry.execute([*words, "training.max_updates=2"]) == 0, capsys.readouterr().err
    assert "epochs of" not in (tuned / "recipe.yaml").read_text()
