import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from mtkit.errors import DataError, MissingInputError
from mtkit.training.checkpoints.averaging import average_checkpoints
from mtkit.training.checkpoints.checkpoint import Checkpoint, write_checkpoint
from mtkit.training.checkpoints.ema import MovingAverage


@pytest.mark.parametrize("every", [1, 3])
def test_moving_average_is_the_slow_form(every):
    torch.manual_seed(0)
    model = nn.Linear(2, 3)
    average = MovingAverage(model, decay=0.6, every=every)
    slow = {name: p.detach().clone() for name, p in model.named_parameters()}
    for update in range(1, 10):
        for p in model.parameters():
            p.data.add_(torch.randn_like(p))
        average(model, update)
        for name, p in model.named_parameters():
            if update % every == 0:
                decay = min(0.6, (1 + update) / (10 + update)) ** every
                slow[name] = decay * slow[name] + (1 - decay) * p.detach()
            torch.testing.assert_close(average.tensors()[name], slow[name])


def test_in_place_swaps_and_swaps_back_also_after_an_error():
    model = nn.Linear(2, 2)
    average = MovingAverage(model, decay=0.5)
    own = model.weight.detach().clone()
    averaged = average.tensors()["weight"].zero_().clone()

    def fail_inside():
        with average.in_place(model):
            assert torch.equal(model.weight, averaged)
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert torch.equal(model.weight, own)
    assert torch.equal(average.tensors()["weight"], averaged)


def test_mean_of_checkpoints_and_model_folders(tmp_path):
    weights = [{"w": torch.randn(2, 2)} for _ in range(3)]
    ignored = {"w": torch.full((2, 2), 1e6)}
    write_checkpoint(Checkpoint({"model": ignored, "average": weights[0]}, {}), tmp_path / "a")
    write_checkpoint(Checkpoint({"model": weights[1]}, {}), tmp_path / "b")
    (tmp_path / "c").mkdir()
    save_file(weights[2], tmp_path / "c/model.safetensors")
    found = average_checkpoints([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    torch.testing.assert_close(found["w"], sum(w["w"] for w in weights) / 3)


def test_what_is_not_learned_comes_from_the_model(tmp_path):
    model, average = {"w": torch.zeros(2), "features": torch.ones(3)}, {"w": torch.ones(2)}
    write_checkpoint(Checkpoint({"model": model, "average": average}, {}), tmp_path / "a")
    found = average_checkpoints([tmp_path / "a"])
    assert {name: weight.tolist() for name, weight in found.items()} == {"w": [1, 1], "features": [1, 1, 1]}


def test_one_checkpoint_is_its_own_mean(tmp_path):
    weights = {"w": torch.randn(50)}
    write_checkpoint(Checkpoint({"model": weights}, {}), tmp_path / "a")
    assert torch.equal(average_checkpoints([tmp_path / "a"])["w"], weights["w"])


def test_what_cannot_be_averaged_is_named(tmp_path):
    write_checkpoint(Checkpoint({"model": {"w": torch.zeros(2)}}, {}), tmp_path / "a")
    write_checkpoint(Checkpoint({"model": {"w": torch.zeros(3)}}, {}), tmp_path / "b")
    with pytest.raises(DataError, match=r"b: not the same model as .*a;"):
        average_checkpoints([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(MissingInputError, match="c: neither a checkpoint nor a model folder"):
        average_checkpoints([tmp_path / "c"])
