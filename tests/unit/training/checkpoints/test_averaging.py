import pytest
import torch
from safetensors.torch import save_file

from mtkit.errors import DataError, MissingInputError
from mtkit.training.checkpoints.averaging import average_checkpoints
from mtkit.training.checkpoints.checkpoint import Checkpoint, write_checkpoint


def test_mean_of_checkpoints_and_model_folders(tmp_path):
    weights = [{"w": torch.randn(2, 2)} for _ in range(3)]
    ignored = {"w": torch.full((2, 2), 1e6)}
    write_checkpoint(Checkpoint({"model": ignored, "ema": weights[0]}, {}), tmp_path / "a")
    write_checkpoint(Checkpoint({"model": weights[1]}, {}), tmp_path / "b")
    (tmp_path / "c").mkdir()
    save_file(weights[2], tmp_path / "c/model.safetensors")
    mean = average_checkpoints([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    torch.testing.assert_close(mean["w"], sum(w["w"] for w in weights) / 3)


def test_buffers_come_from_the_model(tmp_path):
    model, ema = {"w": torch.zeros(2), "features": torch.ones(3)}, {"w": torch.ones(2)}
    write_checkpoint(Checkpoint({"model": model, "ema": ema}, {}), tmp_path / "a")
    mean = average_checkpoints([tmp_path / "a"])
    assert {name: weight.tolist() for name, weight in mean.items()} == {"w": [1, 1], "features": [1, 1, 1]}


def test_one_checkpoint_is_its_own_mean(tmp_path):
    weights = {"w": torch.randn(50)}
    write_checkpoint(Checkpoint({"model": weights}, {}), tmp_path / "a")
    assert torch.equal(average_checkpoints([tmp_path / "a"])["w"], weights["w"])


def test_checkpoints_that_cannot_be_averaged_are_named(tmp_path):
    write_checkpoint(Checkpoint({"model": {"w": torch.zeros(2)}}, {}), tmp_path / "a")
    write_checkpoint(Checkpoint({"model": {"w": torch.zeros(3)}}, {}), tmp_path / "b")
    with pytest.raises(DataError, match=r"b: not the same model as .*a;"):
        average_checkpoints([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(MissingInputError, match="c: neither a checkpoint nor a model folder"):
        average_checkpoints([tmp_path / "c"])


def test_known_weights_are_not_read_again(tmp_path):
    weights = {"w": torch.tensor([1.0, 3.0]), "frozen": torch.tensor([4.0])}
    for name, factor in (("a", 1), ("b", 3)):
        save_file({"w": factor * weights["w"], "frozen": weights["frozen"]}, tmp_path / name)
    known = {"frozen": weights["frozen"]}
    for paths, mean in (([tmp_path / "a"], 1), ([tmp_path / "a", tmp_path / "b"], 2)):
        average = average_checkpoints(paths, known)
        assert average["frozen"] is known["frozen"]
        assert torch.equal(average["w"], mean * weights["w"])
        assert average.keys() == average_checkpoints(paths).keys()
