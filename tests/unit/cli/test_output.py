"""Files that appear only when they are whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.cli.output import output
from mtkit.errors import DataError, ReadWriteError


def test_the_file_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old\n")
    with output(path) as stream:
        stream.write("new\u2028line\n")
        assert path.read_text() == "old\n"
    assert path.read_bytes() == "new\u2028line\n".encode()
    assert [each.name for each in tmp_path.iterdir()] == ["out.txt"]


def translate_until_a_bad_line(path: Path) -> None:
    with output(path) as stream:
        stream.write("done\n")
        raise DataError("in.txt:2: byte 1 is not UTF-8")


def test_after_an_error_what_was_done_stays_as_part(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"in\.txt:2"):
        translate_until_a_bad_line(tmp_path / "out.txt")
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"out.txt.part": "done\n"}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReadWriteError, match=r"the folder .*nowhere is not there"), output(tmp_path / "nowhere" / "x"):
        pass


def test_no_path_is_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with output(None) as stream:
        stream.write("ein Mann\n")
    assert capsys.readouterr().out == "ein Mann\n"


def test_a_full_disk_is_named() -> None:
    with pytest.raises(ReadWriteError, match=r"/dev/full: .*no space left"), output(Path("/dev/full")) as stream:
        stream.write("ein Mann\n")


def test_a_link_is_written_through_and_a_private_file_stays_private(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    with output(link) as stream:
        stream.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]
