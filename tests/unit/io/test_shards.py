"""Shards: a text divided into any number of parts, made once each, and joined."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from mtkit.errors import DataError, MissingInputError, UsageError
from mtkit.io.shards import Shard, find_shards, merge_shards


@pytest.mark.parametrize("lines", [0, 1, 7, 100])
@pytest.mark.parametrize("count", [1, 3, 8, 101])
def test_parts_follow_each_other_and_are_of_about_one_size(lines: int, count: int) -> None:
    bounds = [Shard(index, count).bounds(lines) for index in range(1, count + 1)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == lines
    assert all(end == start for (_, end), (start, _) in pairwise(bounds))
    sizes = {end - start for start, end in bounds}
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("text", ["", "2", "0/3", "4/3", "-1/3", "1/0", "a/b", "1/2/3", "1.0/2", "²/3"])
def test_wrong_shards_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="I/N is expected"):
        Shard.parse(text)


def write(path: Path, count: int, inputs: dict[str, str], only: int | None = None) -> list[int]:
    made = []
    for index in range(1, count + 1) if only is None else [only]:

        def make(files: list[Path], index: int = index) -> None:
            made.append(index)
            for file in files:
                file.write_bytes(f"{file.name[:3]} {index}\n".encode())

        Shard(index, count).make([path, path.with_name("other")], inputs, make)
    return made


def test_parts_are_made_once_and_joined(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with pytest.raises(MissingInputError, match="has no complete shard"):
        merge_shards(path)
    assert write(path, 3, {"a": "b"}, only=2) == [2]
    with pytest.raises(UsageError, match="1 of 3 shards are complete; missing: --shard 1/3, 3/3"):
        merge_shards(path)
    assert write(path, 3, {"a": "b"}) == [1, 3]
    assert write(path, 3, {"a": "b"}) == []
    assert merge_shards(path) == [path, tmp_path / "other"]
    assert path.read_bytes() == b"out 1\nout 2\nout 3\n"
    assert (tmp_path / "other").read_bytes() == b"oth 1\noth 2\noth 3\n"
    Shard(2, 3).of(path).write_bytes(b"x\n")
    with pytest.raises(DataError, match="shard-2-of-3: changed since it was made; make this shard again"):
        merge_shards(path)
    assert write(path, 3, {"a": "c"}, only=2) == [2]
    with pytest.raises(DataError, match="shard-2-of-3: made from other text or settings"):
        merge_shards(path)
    assert path.read_bytes() == b"out 1\nout 2\nout 3\n"
    write(path, 4, {"a": "b"}, only=1)
    with pytest.raises(UsageError, match="has shards of 3 and of 4"):
        find_shards(path)
