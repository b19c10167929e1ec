"""Output files appear only once they are complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.errors import DataError, ReadWriteError
from mtkit.translate.translate_to_file import count_finished_lines, open_output, skip_lines


def test_file_is_replaced_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old\n")
    with open_output(path) as stream:
        stream.write("new\u2028line\n")
        assert path.read_text() == "old\n"
    assert path.read_bytes() == "new\u2028line\n".encode()
    assert [each.name for each in tmp_path.iterdir()] == ["out.txt"]


def write_until_an_error(path: Path) -> None:
    with open_output(path) as stream:
        stream.write("done\n")
        raise DataError("in.txt:2: byte 1 is not UTF-8")


def test_finished_lines_stay_in_the_part_file_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"in\.txt:2"):
        write_until_an_error(tmp_path / "out.txt")
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"out.txt.part": "done\n"}


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(ReadWriteError, match=r"the folder .*nowhere does not exist"),
        open_output(tmp_path / "nowhere" / "x"),
    ):
        pass


def test_no_path_means_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with open_output(None) as stream:
        stream.write("ein Mann\n")
    assert capsys.readouterr().out == "ein Mann\n"


def test_full_disk_is_named() -> None:
    with pytest.raises(ReadWriteError, match=r"/dev/full: .*no space left"), open_output(Path("/dev/full")) as stream:
        stream.write("ein Mann\n")


def test_symbolic_links_and_file_modes_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    with open_output(link) as stream:
        stream.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


def test_count_finished_lines_cuts_off_an_incomplete_line(tmp_path: Path) -> None:
    part = tmp_path / "out.txt.part"
    assert count_finished_lines(tmp_path / "out.txt") == 0
    part.write_bytes("ein Mann\n\u2028\neine F".encode())
    assert count_finished_lines(tmp_path / "out.txt") == 2
    assert part.read_bytes() == "ein Mann\n\u2028\n".encode()


def test_skip_lines_needs_as_many_lines_as_are_finished(tmp_path: Path) -> None:
    assert list(skip_lines(iter(["a", "b", "c"]), 2, tmp_path / "out.txt")) == ["c"]
    with pytest.raises(DataError, match=r"out\.txt\.part: has 2 lines, but the input has 1; .* without --resume"):
        skip_lines(iter(["a"]), 2, tmp_path / "out.txt")
