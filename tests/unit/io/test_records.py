"""Records: every single changed bit is noticed, wherever it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mtkit.errors import DamagedError, MissingInputError
from mtkit.io.records import (
    is_text_record,
    older_format,
    parse_record_line,
    read_record,
    read_text_record,
    record_line,
    write_record,
    write_text_record,
)

CONTENT = {"ä": [1, 2.5, None, "x\n"], "nested": {"a": {}}, "n": 10000}


def flips(content: bytes) -> Iterator[bytes]:
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


@pytest.mark.whole
@pytest.mark.parametrize("content", [CONTENT, {}])
def test_a_record_is_json_and_every_changed_bit_is_damage(tmp_path: Path, content: dict) -> None:
    path = tmp_path / "x.json"
    write_record(path, content)
    assert read_record(path, remedy="") == content
    assert json.loads(path.read_text()).keys() == {*content, "sha256"}
    for changed in flips(path.read_bytes()):
        path.write_bytes(changed)
        with pytest.raises(DamagedError, match=r"x\.json: damaged, or edited by hand: .*; get another"):
            read_record(path, remedy="get another")
        assert older_format(path) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"a": 1}', b'{"sha256": "0"}'])
def test_anything_else_is_damage(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(DamagedError, match=r"x\.json: damaged"):
        read_record(tmp_path / "x.json", remedy="get another")
    assert older_format(tmp_path / "x.json") is None


def test_a_record_that_is_cut_off_or_continued_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_record(path, CONTENT)
    whole = path.read_bytes()
    for content in [*(whole[:length] for length in range(len(whole))), whole + b"\n", whole + whole]:
        path.write_bytes(content)
        with pytest.raises(DamagedError):
            read_record(path, remedy="")
    path.unlink()
    with pytest.raises(MissingInputError, match=r"x\.json: no such file"):
        read_record(path, remedy="")


def test_only_records_can_be_written(tmp_path: Path) -> None:
    for content in ({"sha256": "a"}, {"a": float("nan")}):
        with pytest.raises(ValueError, match=r"sha256|JSON"):
            write_record(tmp_path / "x.json", content)
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize("content", [{"format": 2, "mtkit": "0.1"}, {"format": 2, "mtkit": "0.1", "sha256": {"a": ""}}])
def test_a_file_from_before_checksums_shows_its_format(tmp_path: Path, content: dict) -> None:
    (tmp_path / "x.json").write_text(json.dumps(content))
    assert older_format(tmp_path / "x.json") == (2, "0.1")


def test_every_changed_bit_of_a_text_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    write_text_record(path, "a: 1\nb: ö\n")
    assert read_text_record(path, remedy="") == "a: 1\nb: ö\n"
    assert is_text_record(path)
    for changed in flips(path.read_bytes()):
        path.write_bytes(changed)
        assert not is_text_record(path)
        with pytest.raises(DamagedError, match=r"x\.yaml: damaged, or edited by hand: .*; get another"):
            read_text_record(path, remedy="get another")


def test_every_changed_bit_of_a_log_loses_the_line_and_no_other() -> None:
    lines = [record_line({"event": "train", "update": n, "loss": 1.5}) for n in (1, 2, 3)]
    log = b"".join(lines)
    for bit, changed in enumerate(flips(log)):
        read = [record["update"] for line in changed.split(b"\n") if (record := parse_record_line(line)) is not None]
        hit = bit // 8 // len(lines[0])
        lost = {hit + 1, hit + 2} if log[bit // 8] == ord("\n") else {hit + 1}  # two lines become one
        assert read == [n for n in (1, 2, 3) if n not in lost]
    assert [parse_record_line(line.rstrip(b"\n")) for line in lines][1] == {"event": "train", "update": 2, "loss": 1.5}
