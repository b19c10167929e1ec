import json
import os

import pytest
import torch
from safetensors.torch import load_file

from mtkit.errors import DamagedError, DataError, FormatError, ReadWriteError
from mtkit.training.checkpoints import checkpoint as checkpoints
from mtkit.training.checkpoints.checkpoint import (
    Checkpoint,
    CheckpointWriter,
    latest_valid,
    read_checkpoint,
    write_checkpoint,
)
from mtkit.training.checkpoints.tensor_file import read_tensors, write_tensors

FILES = ["model.safetensors", "optimiser.safetensors", "state.json", "manifest.json"]


def made(number):
    tensors = {"model": {"w": torch.full((3, 2), float(number))}, "optimiser": {}}
    return Checkpoint(tensors, {"number": number})


def folder_of(tmp_path, *numbers):
    for number in numbers:
        write_checkpoint(made(number), checkpoints.checkpoint_path(tmp_path, number))
    return tmp_path


def test_the_library_reads_our_tensor_files(tmp_path):
    tensors = {
        "a": torch.randn(3, 2).t(),
        "scalar": torch.tensor(7.0),
        "empty": torch.zeros(0, 4),
        "half": torch.randn(5).bfloat16(),
        "ids": torch.arange(3),
        "flags": torch.tensor([True, False]),
    }
    write_tensors(tmp_path / "x", tensors)
    loaded = load_file(tmp_path / "x")
    assert loaded.keys() == tensors.keys()
    assert all(
        torch.equal(loaded[name], tensor) and loaded[name].dtype == tensor.dtype for name, tensor in tensors.items()
    )
    assert write_tensors(tmp_path / "y", dict(reversed(tensors.items()))) == write_tensors(tmp_path / "z", tensors)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_a_file_in_another_format_is_named(tmp_path):
    (tmp_path / "x").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="x: not a readable safetensors file"):
        read_tensors(tmp_path / "x")


def test_writing_and_reading_a_checkpoint(tmp_path):
    checkpoint = read_checkpoint(folder_of(tmp_path, 5) / "update-00000005")
    assert checkpoint.state == {"number": 5}
    assert torch.equal(checkpoint.tensors["model"]["w"], torch.full((3, 2), 5.0))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_file_is_named_and_the_previous_checkpoint_is_used(tmp_path, name, damage):
    file = folder_of(tmp_path, 1, 2) / "update-00000002" / name
    content = bytearray(file.read_bytes())
    if damage == "remove":
        file.unlink()
    elif damage == "truncate":
        file.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    checkpoint, damaged = latest_valid(tmp_path)
    assert checkpoint.state == {"number": 1}
    ((path, reason),) = damaged.items()
    assert path.name == "damaged-update-00000002"
    assert "update-00000002: damaged:" in reason
    assert name in reason
    assert list(checkpoints.list_checkpoints(tmp_path)) == [1]


def test_a_changed_bit_of_a_manifest_is_detected(tmp_path):
    file = folder_of(tmp_path, 1) / "update-00000001" / "manifest.json"
    content = file.read_bytes()
    original = json.loads(content)
    for index in range(len(content)):
        changed = bytearray(content)
        changed[index] ^= 1 << (index % 7)
        file.write_bytes(changed)
        try:
            is_same = json.loads(bytes(changed)) == original
        except ValueError:
            is_same = False
        if not is_same:
            with pytest.raises(DamagedError):
                read_checkpoint(file.parent)


def test_a_manifest_that_python_cannot_read_is_damage(tmp_path):
    file = folder_of(tmp_path, 1) / "update-00000001" / "manifest.json"
    file.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(DamagedError, match=r"manifest\.json does not match its checksum"):
        read_checkpoint(file.parent)


def test_if_all_checkpoints_are_damaged_none_is_moved(tmp_path):
    folder_of(tmp_path, 1, 2)
    for number in (1, 2):
        (tmp_path / f"update-0000000{number}" / "state.json").unlink()
    with pytest.raises(DamagedError, match=r"state\.json is missing.*\n.*\n.*no intact checkpoint .*; restore one"):
        latest_valid(tmp_path)
    assert list(checkpoints.list_checkpoints(tmp_path)) == [1, 2]


def test_no_checkpoints_are_no_error(tmp_path):
    assert latest_valid(tmp_path / "none") == (None, {})


@pytest.mark.parametrize(("other", "version"), [(1, "0.1.0"), (99, "9.0")])
def test_a_checkpoint_of_another_format_is_refused_with_the_version_that_wrote_it(
    tmp_path, monkeypatch, other, version
):
    with monkeypatch.context() as writer:
        writer.setattr(checkpoints, "FORMAT", other)
        writer.setattr(checkpoints, "__version__", version)
        folder_of(tmp_path, 1)
    message = rf"written by mtkit {version} in checkpoint format {other}, .* format 2; .*--fresh.*, or use mtkit "
    with pytest.raises(FormatError, match=rf"{message}{version}$"):
        latest_valid(tmp_path)
    assert list(checkpoints.list_checkpoints(tmp_path)) == [1]


def test_clean_up_after_a_killed_process_restores_a_replaced_checkpoint(tmp_path):
    folder_of(tmp_path, 1, 2)
    (tmp_path / "update-00000002").rename(tmp_path / ".update-00000002.old")
    (tmp_path / ".update-00000003.77.tmp").mkdir()
    (tmp_path / ".update-00000001.gone").mkdir()
    checkpoints.clean_up(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["update-00000001", "update-00000002"]


def test_the_writer_removes_what_should_not_be_kept(tmp_path):
    writer = CheckpointWriter(tmp_path, should_keep=lambda update, present: update in present[-2:] or update == 1)
    for number in range(1, 6):
        writer.submit(number, made(number))
    writer.close(wait=True)
    assert list(checkpoints.list_checkpoints(tmp_path)) == [1, 4, 5]


def test_a_full_disk_is_raised_by_the_next_call_and_damages_nothing(tmp_path, monkeypatch):
    writer = CheckpointWriter(tmp_path, should_keep=lambda update, present: False)
    writer.submit(1, made(1))
    writer.wait()

    def full(path, tensors):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(checkpoints, "write_tensors", full)
    writer.submit(2, made(2))
    with pytest.raises(ReadWriteError, match="no space left on device; free some space"):
        writer.close(wait=True)
    assert latest_valid(tmp_path)[0].state == {"number": 1}
    assert os.listdir(tmp_path) == ["update-00000001"]
