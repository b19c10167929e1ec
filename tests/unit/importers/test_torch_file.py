"""Tensors of pytorch_model.bin: those that torch reads, and nothing is ever run."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from mtkit.errors import DataError
from mtkit.importers.torch_file import ForbiddenPickleError, read_torch_file
from mtkit.inference.packing import as_float32
from tests.toy.sampling import thinned

TABLE = torch.arange(24.0).reshape(4, 6)
STATE = {
    "plain": TABLE,
    "transposed": TABLE.T,
    "part": TABLE[1:3, 2:5],
    "half": TABLE.half(),
    "bfloat16": TABLE.bfloat16(),
    "double": TABLE.double(),
    "scalar": torch.tensor(3.5),
    "none": torch.zeros(0, 5),
    "numbers": torch.arange(5),
}


def save(path: Path, value: object) -> Path:
    torch.save(value, path)
    return path


def test_tensors_are_those_that_torch_reads(tmp_path: Path) -> None:
    module = torch.nn.Linear(3, 2)
    path = save(tmp_path / "pytorch_model.bin", {**STATE, **module.state_dict(), "parameter": module.weight})
    expected = torch.load(path, weights_only=True)
    tensors = read_torch_file(path)
    assert tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert tensors[name].shape == tuple(tensor.shape)
        np.testing.assert_array_equal(as_float32(tensors[name]), tensor.detach().float().numpy())


def save_early(path: Path, value: object) -> Path:
    """A file in the form of torch before 1.6."""
    torch.save(value, path, _use_new_zipfile_serialization=False)
    return path


def test_files_of_torch_before_1_6_are_read(tmp_path: Path) -> None:
    module = torch.nn.Linear(3, 2)
    path = save_early(tmp_path / "x.bin", {**STATE, **module.state_dict(), "parameter": module.weight})
    expected, tensors = torch.load(path, weights_only=True), read_torch_file(path)
    assert tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(as_float32(tensors[name]), tensor.detach().float().numpy())


@pytest.mark.parametrize("share", thinned([each / 200 for each in range(200)], 10))
def test_an_early_file_that_was_cut_off_is_named(tmp_path: Path, share: float) -> None:
    content = save_early(tmp_path / "x.bin", STATE).read_bytes()
    (tmp_path / "x.bin").write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=r"x\.bin: damaged, cut off, or no file of torch"):
        read_torch_file(tmp_path / "x.bin")


def test_an_early_file_with_a_program_is_refused(tmp_path: Path) -> None:
    path = save_early(tmp_path / "x.bin", {"x": Runs(os.mkdir, str(tmp_path / "run"))})
    with pytest.raises(ForbiddenPickleError, match=r"would run posix\.mkdir"):
        read_torch_file(path)
    assert not (tmp_path / "run").exists()


def test_a_state_with_attributes_is_read(tmp_path: Path) -> None:
    """`state_dict` is an ordered table with the versions of the modules as an attribute."""
    state = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2)).state_dict()
    assert set(read_torch_file(save(tmp_path / "x.bin", state))) == set(state)


class Runs:
    """What runs a function when a pickle is read."""

    def __init__(self, function: object, *arguments: object) -> None:
        self._reduced = (function, arguments)

    def __reduce__(self) -> tuple[object, object]:
        return self._reduced


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("function", [os.mkdir, eval, print, pickle.loads, torch.load])
def test_nothing_is_run(tmp_path: Path, function: object, protocol: int, capsys: pytest.CaptureFixture[str]) -> None:
    mark = tmp_path / "run"
    argument = f"__import__('os').mkdir({str(mark)!r})" if function is eval else str(mark)
    path = tmp_path / "pytorch_model.bin"
    torch.save({"weight": TABLE, "more": Runs(function, argument)}, path, pickle_protocol=protocol)
    with pytest.raises(DataError, match=str(path)) as caught:
        read_torch_file(path)
    assert isinstance(caught.value, ForbiddenPickleError) or protocol == 4
    assert not mark.exists()
    assert capsys.readouterr().out == ""


def test_the_message_names_what_would_run(tmp_path: Path) -> None:
    path = save(tmp_path / "pytorch_model.bin", Runs(os.system, "touch /tmp/x"))
    with pytest.raises(ForbiddenPickleError, match=r"would run (posix|nt)\.system; nothing of it was run"):
        read_torch_file(path)


def archive(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", content)
        file.writestr("archive/data/0", bytes(16))
    return path


def tensor_pickle(shape: str, stride: str, count: int = 4, offset: int = 0) -> bytes:
    """A table with one tensor of a storage of four floats, written by hand."""

    def number(value: int) -> bytes:
        return b"J" + value.to_bytes(4, "little", signed=True)

    def tuple_of(text: str) -> bytes:
        return b"(" + b"".join(number(int(each)) for each in text.split()) + b"t"

    storage = (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + number(count) + b"tQ"
    )
    arguments = b"(" + storage + number(offset) + tuple_of(shape) + tuple_of(stride) + b"\x89}t"
    return b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"Rs."


def test_a_tensor_written_by_hand_is_read(tmp_path: Path) -> None:
    assert read_torch_file(archive(tmp_path / "x.bin", tensor_pickle("2 2", "2 1")))["w"].shape == (2, 2)


@pytest.mark.parametrize(
    "content",
    [
        tensor_pickle("5", "1"),
        tensor_pickle("2 2", "4 1"),
        tensor_pickle("2", "-1", offset=3),
        tensor_pickle("-2", "1"),
        tensor_pickle("4", "1", offset=1),
        tensor_pickle("4", "1", count=9),
        tensor_pickle("100000 100000", "0 0"),
        tensor_pickle("2 2", "1"),
        b"\x80\x02}q\x00.",  # no tensor: an empty table
        b"\x80\x02K\x01.",
        b"\x80\x02}X\x01\x00\x00\x00wK\x01s.",
        b"\x80\x02Rs.",
        b"\x80\x02}" + b")" + b"\x85" * 200_000 + b"Ns.",  # a key whose hash would need more stack than there is
        b"\x80\x02(((",
        b"",
        b"not a pickle",
    ],
)
def test_damaged_descriptions_are_refused(tmp_path: Path, content: bytes) -> None:
    path = archive(tmp_path / "x.bin", content)
    if content == b"\x80\x02}q\x00.":
        assert read_torch_file(path) == {}
        return
    with pytest.raises(DataError, match="damaged, cut off, or no file of torch"):
        read_torch_file(path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = save(tmp_path / "whole.bin", STATE).read_bytes()
    cut = tmp_path / "cut.bin"
    for length in range(0, len(whole) - 1, 37):
        cut.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"cut\.bin: damaged"):
            read_torch_file(cut)


def test_a_compressed_archive_is_refused(tmp_path: Path) -> None:
    """A few bytes could become gigabytes."""
    path = tmp_path / "x.bin"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", b"\x80\x02}.")
        file.writestr("archive/data/0", bytes(1 << 20))
    with pytest.raises(DataError, match="torch compresses nothing"):
        read_torch_file(path)


def test_tensors_that_share_a_storage_do_not_become_many_times_the_file(tmp_path: Path) -> None:
    table = torch.zeros(1000, 10)
    for count, is_read in ((4, True), (200, False)):
        path = save(tmp_path / "x.bin", {f"w{number}": table for number in range(count)})
        if is_read:
            assert len(read_torch_file(path)) == count
        else:
            with pytest.raises(DataError, match="8,000,000 bytes of tensors would come out of it"):
                read_torch_file(path)


@pytest.mark.whole
@pytest.mark.parametrize(
    "instruction", thinned([b")", b"}", b"N", b"\x88", b"(", b"K\x01", b")\x85", b"X\x00\x00\x00\x00"], 4)
)
@pytest.mark.parametrize("end", [b"", b"."])
def test_a_pickle_without_an_end_is_read_for_a_time(tmp_path: Path, instruction: bytes, end: bytes) -> None:
    """However it goes on: its stack would take gigabytes, and its reading minutes."""
    content = b"\x80\x02" + instruction * ((15 << 20) // len(instruction)) + end
    with pytest.raises(DataError, match="no end in its first 1,000,000 instructions"):
        read_torch_file(archive(tmp_path / "x.bin", content))
    with pytest.raises(DataError, match="short"):
        read_torch_file(archive(tmp_path / "x.bin", bytes(17 << 20)))


def test_members_that_overlap_are_refused(tmp_path: Path) -> None:
    """Two names of one member, each of which would be read into memory of its own."""
    path = archive(tmp_path / "x.bin", tensor_pickle("2 2", "2 1"))
    with zipfile.ZipFile(path, "a") as file:
        (stored,) = [each for each in file.infolist() if each.filename.endswith("/0")]
        for number in range(1, 200):
            info = zipfile.ZipInfo(f"archive/data/{number}")
            info.header_offset, info.file_size, info.compress_size = stored.header_offset, 1 << 16, 1 << 16
            info.CRC = stored.CRC
            file.filelist.append(info)
        file._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="longer than the file together"):
        read_torch_file(path)
