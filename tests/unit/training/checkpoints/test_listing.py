import pytest

from mtkit.errors import MissingInputError
from mtkit.training.checkpoints.checkpoint import checkpoint_path, checkpoint_table, inspect_checkpoints
from tests.toy.training import toy_config, toy_train


def test_a_folder_without_checkpoints_is_named(tmp_path):
    with pytest.raises(MissingInputError, match="has no checkpoints"):
        inspect_checkpoints(tmp_path)


def test_damaged_and_best_checkpoints_are_listed(tmp_path):
    toy_train(tmp_path, toy_config(max_updates=12, checkpoint_every=4))
    intact = inspect_checkpoints(tmp_path)
    assert all(one.error is None for one in intact)
    assert [one.update for one in intact if one.rank == 1]
    assert ["1", "intact"] in [list(row[2:]) for row in checkpoint_table(intact).rows]
    file = checkpoint_path(tmp_path / "checkpoints", 8) / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    errors = {one.update: one.error for one in inspect_checkpoints(tmp_path / "checkpoints")}
    assert errors[8] == "damaged: model.safetensors does not match its checksum"
    assert errors[12] is None
    file.parent.rename(file.parent.with_name("damaged-update-00000008"))
    assert inspect_checkpoints(tmp_path)[-1].error == "damaged, in quarantine"
