import json
import os

import pytest
import torch
from safetensors.torch import load_file

from mtkit.errors import DamagedError, DataError, ReadWriteError
from mtkit.training.checkpoints import checkpoint as checkpoints
from mtkit.training.checkpoints.checkpoint import Checkpoint, newest_good, read_checkpoint, write_checkpoint
from mtkit.training.checkpoints.tensor_file import read_tensors, write_tensors
from mtkit.training.checkpoints.writer import CheckpointWriter

FILES = ["model.safetensors", "optimiser.safetensors", "state.json", "manifest.json"]


def made(number):
    tensors = {"model": {"w": torch.full((3, 2), float(number))}, "optimiser": {}}
    return Checkpoint(tensors, {"number": number})


def folder_of(tmp_path, *numbers):
    for number in numbers:
        write_checkpoint(made(number), checkpoints.checkpoint_path(tmp_path, number))
    return tmp_path


def test_tensor_file_is_what_the_library_reads(tmp_path):
    tensors = {
        "a": torch.randn(3, 2).t(),
        "scalar": torch.tensor(7.0),
        "empty": torch.zeros(0, 4),
        "half": torch.randn(5).bfloat16(),
        "ids": torch.arange(3),
        "flags": torch.tensor([True, False]),
    }
    write_tensors(tmp_path / "x", tensors)
    found = load_file(tmp_path / "x")
    assert found.keys() == tensors.keys()
    assert all(
        torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in tensors.items()
    )
    assert write_tensors(tmp_path / "y", dict(reversed(tensors.items()))) == write_tensors(tmp_path / "z", tensors)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_read_tensors_names_a_file_of_something_else(tmp_path):
    (tmp_path / "x").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="x: not a readable safetensors file"):
        read_tensors(tmp_path / "x")


def test_a_checkpoint_comes_back(tmp_path):
    found = read_checkpoint(folder_of(tmp_path, 5) / "update-00000005")
    assert found.state == {"number": 5}
    assert torch.equal(found.tensors["model"]["w"], torch.full((3, 2), 5.0))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_harm_to_any_byte_is_named_and_the_one_before_is_used(tmp_path, name, harm):
    file = folder_of(tmp_path, 1, 2) / "update-00000002" / name
    content = bytearray(file.read_bytes())
    if harm == "remove":
        file.unlink()
    elif harm == "cut":
        file.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    found, damages = newest_good(tmp_path)
    assert found.state == {"number": 1}
    assert [damage.path.name for damage in damages] == ["damaged-update-00000002"]
    assert "update-00000002: damaged:" in damages[0].reason
    assert name in damages[0].reason
    assert list(checkpoints.list_checkpoints(tmp_path)) == [1]


def test_every_single_bit_of_a_manifest_counts(tmp_path):
    file = folder_of(tmp_path, 1) / "update-00000001" / "manifest.json"
    content = file.read_bytes()
    whole = json.loads(content)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 7)
        file.write_bytes(changed)
        try:
            is_same = json.loads(bytes(changed)) == whole
        except ValueError:
            is_same = False
        if not is_same:
            with pytest.raises(DamagedError):
                read_checkpoint(file.parent)


def test_all_damaged_is_an_error_that_moves_nothing(tmp_path):
    folder_of(tmp_path, 1, 2)
    for number in (1, 2):
        (tmp_path / f"update-0000000{number}" / "state.json").unlink()
    with pytest.raises(DamagedError, match=r"state\.json is missing.*\n.*\n.*--fresh"):
        newest_good(tmp_path)
    assert list(checkpoints.list_checkpoints(tmp_path)) == [1, 2]


def test_nothing_there_is_no_damage(tmp_path):
    assert newest_good(tmp_path / "none") == (None, [])


def test_a_newer_format_says_so(tmp_path, monkeypatch):
    with monkeypatch.context() as newer:
        newer.setattr(checkpoints, "FORMAT", 2)
        newer.setattr(checkpoints, "__version__", "9.0")
        folder_of(tmp_path, 1)
    with pytest.raises(DataError, match=r"has format 2, and mtkit \S+ reads up to 1; it was written by mtkit 9\.0"):
        newest_good(tmp_path)


def test_leftovers_of_a_kill_go_and_what_stepped_aside_comes_back(tmp_path):
    folder_of(tmp_path, 1, 2)
    (tmp_path / "update-00000002").rename(tmp_path / ".update-00000002.old")
    (tmp_path / ".update-00000003.77.tmp").mkdir()
    (tmp_path / ".update-00000001.gone").mkdir()
    checkpoints.clear_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["update-00000001", "update-00000002"]


def test_writer_keeps_what_is_wanted(tmp_path):
    writer = CheckpointWriter(tmp_path, is_wanted=lambda update, present: update in present[-2:] or update == 1)
    for number in range(1, 6):
        writer.submit(number, made(number))
    writer.close(wait=True)
    assert list(checkpoints.list_checkpoints(tmp_path)) == [1, 4, 5]


def test_a_full_disk_is_raised_at_the_next_look_and_harms_nothing(tmp_path, monkeypatch):
    writer = CheckpointWriter(tmp_path, is_wanted=lambda update, present: False)
    writer.submit(1, made(1))
    writer.wait()

    def full(path, tensors):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(checkpoints, "write_tensors", full)
    writer.submit(2, made(2))
    with pytest.raises(ReadWriteError, match="no space left on device; free some space"):
        writer.close(wait=True)
    assert newest_good(tmp_path)[0].state == {"number": 1}
    assert os.listdir(tmp_path) == ["update-00000001"]
