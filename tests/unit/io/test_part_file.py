"""FILE.part: one writer, regular files only; resuming is tested in translate/output/test_translate_to_file.py."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mtkit.errors import BusyError, UsageError
from mtkit.io.part_file import open_part_file


def make_link(path: Path) -> None:
    (path.parent / "precious").write_text("precious")
    path.symlink_to(path.parent / "precious")


def make_hard_link(path: Path) -> None:
    (path.parent / "precious").write_text("precious")
    os.link(path.parent / "precious", path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


KINDS = {
    "a symbolic link": make_link,
    "a link": make_hard_link,
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a device": make_socket,
}


@pytest.mark.parametrize("end", [".part", ".part.jsonl"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("resume", [False, True])
def test_a_part_that_is_no_regular_file_is_refused_and_left_alone(tmp_path, monkeypatch, kind, end, resume):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    path = Path(f"x{end}")
    KINDS[kind](path)
    before = path.lstat()
    message = rf"x{end}: is {kind}, but unfinished output is written there; remove it, or name another output"
    with pytest.raises(UsageError, match=message), open_part_file(Path("x"), {}, resume=resume):
        pass
    assert path.lstat().st_mode == before.st_mode
    assert not (tmp_path / "precious").exists() or (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / ".x.lock").exists()


def test_a_second_writer_is_refused_and_the_first_is_not_disturbed(tmp_path):
    path = tmp_path / "x"
    with open_part_file(path, {}) as part:
        part.write("one")
        for resume in (False, True):
            with pytest.raises(BusyError, match="locked by process"), open_part_file(path, {}, resume=resume):
                pass
        part.write("two")
    assert path.read_text() == "one\ntwo\n"
    assert [each.name for each in tmp_path.iterdir()] == ["x"]
